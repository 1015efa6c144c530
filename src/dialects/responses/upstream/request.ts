import type {
  AssistantPart,
  DocumentPart,
  ImagePart,
  JsonFormat,
  Prompt,
  TextPart,
  Tool,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import type { Target, UpstreamRequest } from '../../dialect.ts';
import { dropParameters } from '../../normalize/requests/drop-parameters.ts';
import {
  levelOf,
  outputLimit,
  rejectsSampling,
  vendorEffort,
} from '../../normalize/requests/generation-options.ts';
import { documentText } from '../../normalize/requests/inline-data.ts';
import {
  breakpointField,
  cacheBreakpointNames,
  tenantCacheField,
} from '../../normalize/requests/prompt-cache.ts';
import { shortCallId } from '../../normalize/requests/tool-identifiers.ts';
import { functionSchema } from '../../normalize/requests/tool-schema.ts';
import { encryptedReasoning } from '../client/schema.ts';
import { writeReasoningItem } from '../reasoning-signature.ts';

/**
 * Parameters that this endpoint doesn't support, or whose results a neutral answer can't represent.
 */
const unsupportedParameters = [
  'stop',
  'n',
  'seed',
  'top_k',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'top_logprobs',
];

/** OpenAI rejects a lower output cap. Clients that only test the connection send 1. */
export const outputTokensMin = 16;

/** OpenAI rejects a longer `user`. Claude Code sends JSON with IDs, which is longer. */
const userLengthMax = 64;

/** Writes a prompt as a request to OpenAI's Responses endpoint. The response isn't stored. */
export function writeRequest(prompt: Prompt, target: Target): UpstreamRequest {
  const { quirks, thinking } = target;
  const effort = thinking === null ? undefined : vendorEffort(levelOf(prompt.reasoning), quirks);
  const { prompt: supported, dropped } = dropParameters(
    prompt,
    unsupportedIn(prompt, target, effort),
  );
  const cap = outputLimit(supported.outputTokensMax, target);
  const body = {
    model: target.upstreamModel,
    input: writeItems(supported.turns, target.provider),
    ...writeTools(supported),
    max_output_tokens: cap === null ? undefined : Math.max(cap, outputTokensMin),
    temperature: supported.sampling.temperature,
    top_p: supported.sampling.topP,
    text: writeTextOptions(supported),
    reasoning: thinking === null ? undefined : writeReasoningOptions(supported, effort),
    user: supported.user?.slice(0, userLengthMax) ?? undefined,
    ...tenantCacheField(target),
    ...(supported.promptCacheKey ? { prompt_cache_key: supported.promptCacheKey } : {}),
    stream: supported.stream ? true : undefined,
    store: false,
    // Models that don't reason reject this.
    include: thinking === null ? undefined : [encryptedReasoning],
  };
  return {
    path: '/responses',
    body: JSON.stringify(body),
    dropped: cacheBreakpointNames(prompt).has('cache_control')
      ? [...dropped, 'cache_control']
      : dropped,
  };
}

function* unsupportedIn(
  { reasoning }: Prompt,
  { quirks, thinking }: Target,
  effort: string | undefined,
): Iterable<string> {
  yield* unsupportedParameters;
  yield* quirks.drop_params ?? [];
  if (thinking === null) {
    // Dropping `none` loses nothing, because the model doesn't reason anyway.
    if (reasoning?.effort !== 'none') yield 'reasoning';
    return;
  }
  if (rejectsSampling(effort, quirks)) yield* ['temperature', 'top_p'];
}

function writeReasoningOptions({ reasoning }: Prompt, effort: string | undefined) {
  if (reasoning === null) return undefined;
  const isVisible = reasoning.visible && effort !== 'none';
  if (effort === undefined && !isVisible) return undefined;
  return { effort, summary: isVisible ? 'auto' : undefined };
}

function writeTools({ tools, toolChoice, parallelTools }: Prompt) {
  if (tools.length === 0) return {};
  return {
    tools: tools.map(writeTool),
    tool_choice:
      toolChoice === null || typeof toolChoice === 'string'
        ? (toolChoice ?? undefined)
        : { type: 'function', name: toolChoice.name },
    parallel_tool_calls: parallelTools ?? undefined,
  };
}

/** Always sends `strict`, because this endpoint defaults to strict mode. */
function writeTool({ name, description, parameters: schema, strict = false }: Tool) {
  const parameters = functionSchema(schema, strict);
  return { type: 'function', name, description, parameters, strict };
}

function writeTextOptions({ json, verbosity }: Prompt) {
  if (json === null && verbosity === undefined) return undefined;
  return { format: json === null ? undefined : writeFormat(json), verbosity };
}

function writeFormat({ name, description, schema, strict }: JsonFormat) {
  if (schema === null) return { type: 'json_object' };
  return { type: 'json_schema', name, description, schema, strict };
}

export function writeItems(turns: readonly Turn[], provider?: string): object[] {
  return turns.flatMap((turn) => writeTurn(turn, provider));
}

function writeTurn(turn: Turn, provider: string | undefined): object[] {
  switch (turn.role) {
    case 'system':
      return writeSystem(turn.parts);
    case 'user':
      return writeUser(turn.parts);
    case 'assistant':
      return writeAssistant(turn.parts, provider);
  }
}

function writeSystem(parts: readonly TextPart[]): object[] {
  const content = parts.flatMap(writeText);
  return content.length > 0 ? [{ role: 'system', content }] : [];
}

function writeText(part: TextPart): object[] {
  const { text } = part;
  return text === '' ? [] : [{ type: 'input_text', text, ...breakpointField(part) }];
}

function writeUser(parts: readonly UserPart[]): object[] {
  const results = parts.filter((part) => part.kind === 'tool_result');
  const written = results.map(writeResult);
  const content = parts.flatMap((part) => (part.kind === 'tool_result' ? [] : writeUserPart(part)));
  if (content.length > 0) return [...written, { role: 'user', content }];
  // This may be the only message, and OpenAI rejects a request without items.
  return written.length > 0 ? written : [{ role: 'user', content: '' }];
}

function writeUserPart(part: Exclude<UserPart, ToolResultPart>): object[] {
  switch (part.kind) {
    case 'text':
      return writeText(part);
    case 'image':
      return [writeImage(part)];
    case 'audio': {
      const { data, format } = part;
      return [{ type: 'input_audio', input_audio: { data, format } }];
    }
    case 'document':
      return writeDocument(part);
  }
}

function writeImage(part: ImagePart): object {
  const { url, detail = 'auto' } = part;
  return { type: 'input_image', image_url: url, detail, ...breakpointField(part) };
}

function writeDocument(part: DocumentPart): object[] {
  const { source, name } = part;
  if ('text' in source) {
    return writeText({ ...part, kind: 'text', text: documentText(source.text, name) });
  }
  return [{ type: 'input_file', ...writeFile(source, name), ...breakpointField(part) }];
}

type FileSource = Exclude<DocumentPart['source'], { readonly text: string }>;

function writeFile(source: FileSource, name: string | undefined): object {
  if ('fileId' in source) return { file_id: source.fileId };
  // OpenAI rejects bytes without a filename and URLs with a filename.
  const isInline = /^data:/i.test(source.url);
  return isInline
    ? { filename: name ?? 'document.pdf', file_data: source.url }
    : { file_url: source.url };
}

const callIdLengthMax = 64;

/** Shortens the ID of a call if OpenAI would reject it. */
export function validCallId(id: string): string {
  return shortCallId(id, callIdLengthMax);
}

/**
 * Writes a tool result. A failed result starts with `Error:`, because there is no field for
 * failures.
 */
function writeResult(result: ToolResultPart): object {
  const { callId, parts, isError } = result;
  const errorPrefix = isError ? 'Error: ' : '';
  const head = { type: 'function_call_output', call_id: validCallId(callId) };
  const point = breakpointField(result);
  if (parts.every((part) => part.kind === 'text')) {
    const text = errorPrefix + parts.map((part) => part.text).join('\n\n');
    const isPlain = text === '' || !('prompt_cache_breakpoint' in point);
    return { ...head, output: isPlain ? text : [{ type: 'input_text', text, ...point }] };
  }
  const prefix = isError ? [{ type: 'input_text', text: errorPrefix }] : [];
  const content = [...prefix, ...parts.flatMap(writeUserPart)];
  const last = content.length - 1;
  const output = content.map((part, index) => (index === last ? { ...part, ...point } : part));
  return { ...head, output };
}

/**
 * Puts reasoning directly before the output that followed it, because OpenAI rejects reasoning
 * alone.
 */
function writeAssistant(parts: readonly AssistantPart[], provider: string | undefined): object[] {
  const items: object[] = [];
  let reasoning: object[] = [];
  let content: object[] = [];
  const endReasoning = () => {
    // Push one by one, because there may be more items than `push` accepts as arguments.
    for (const item of reasoning) items.push(item);
    reasoning = [];
  };
  const endMessage = () => {
    if (content.length > 0) items.push({ role: 'assistant', content });
    content = [];
  };
  for (const part of parts) {
    if (part.kind === 'reasoning') {
      endMessage();
      const item = writeReasoningItem(part, provider);
      if (item) reasoning.push(item);
    } else if (part.kind === 'tool_call') {
      endMessage();
      endReasoning();
      const { id, name, arguments: json } = part;
      const call_id = validCallId(id);
      items.push({ type: 'function_call', call_id, name, arguments: json || '{}' });
    } else if (part.text !== '') {
      endReasoning();
      content.push(
        part.kind === 'refusal'
          ? { type: 'refusal', refusal: part.text }
          : { type: 'output_text', text: part.text },
      );
    }
  }
  endMessage();
  return items;
}
