/** Writes a prompt as a chat request, before a vendor's quirks are applied. */
import type {
  AssistantPart,
  DocumentPart,
  ImagePart,
  Prompt,
  TextPart,
  Tool,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import { levelOf } from '../../normalize/requests/generation-options.ts';
import { documentText } from '../../normalize/requests/inline-data.ts';
import { cacheBreakpointNames } from '../../normalize/requests/prompt-cache.ts';
import { functionSchema } from '../../normalize/requests/tool-schema.ts';
import { splitEncrypted } from '../../normalize/signature.ts';
import type { ChatRequest } from '../client/request.ts';
import type { ChatBody, ChatMessage } from '../client/schema.ts';
import { attachedNote } from './tool-images.ts';

type ContentPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number];

/**
 * Returns the body and the names of dropped parameters. Reasoning is dropped for models that don't
 * reason: coding agents request it from every model, and some servers reject it. Requests from
 * OpenAI clients skip this step and go to `passChat` directly.
 */
export function writeBody(
  prompt: Prompt,
  isReasoningModel = true,
  hasCacheKeys = false,
): { body: ChatRequest['body']; dropped: readonly string[] } {
  const effort = levelOf(prompt.reasoning);
  const dropped = new Set<string>(cacheBreakpointNames(prompt));
  if (prompt.sampling.topK !== undefined) dropped.add('top_k');
  // Many servers reject unknown fields.
  if (prompt.promptCacheKey && !hasCacheKeys) dropped.add('prompt_cache_key');
  if (!isReasoningModel && effort !== null && effort !== 'none') dropped.add('reasoning');
  const messages = prompt.turns.flatMap((turn) => writeTurn(turn, dropped));
  const fields: Partial<ChatBody> = {
    // Many servers don't support the newer `max_completion_tokens`. A quirk marks the vendors that
    // require it.
    max_tokens: prompt.outputTokensMax,
    stop: prompt.stop.length > 0 ? [...prompt.stop] : null,
    tools: prompt.tools.length > 0 ? prompt.tools.map(writeTool) : null,
    tool_choice: writeToolChoice(prompt),
    parallel_tool_calls: prompt.tools.length > 0 ? prompt.parallelTools : null,
    response_format: writeFormat(prompt),
    reasoning_effort: isReasoningModel ? effort : null,
    ...writeSampling(prompt),
    // OpenAI accepts at most 64 characters. Claude Code sends JSON with IDs, which is longer.
    user: prompt.user?.slice(0, 64) ?? null,
    prompt_cache_key: (hasCacheKeys && prompt.promptCacheKey) || null,
    stream: prompt.stream ? true : null,
  };
  return { body: { ...fields, messages }, dropped: [...dropped] };
}

function writeSampling({ sampling, choices }: Prompt): Partial<ChatBody> {
  return {
    temperature: sampling.temperature ?? null,
    top_p: sampling.topP ?? null,
    seed: sampling.seed ?? null,
    presence_penalty: sampling.presencePenalty ?? null,
    frequency_penalty: sampling.frequencyPenalty ?? null,
    logprobs: sampling.logprobs ?? null,
    top_logprobs: sampling.topLogprobs ?? null,
    logit_bias: sampling.logitBias ? { ...sampling.logitBias } : null,
    n: choices > 1 ? choices : null,
  };
}

function writeTurn(turn: Turn, dropped: Set<string>): ChatMessage[] {
  switch (turn.role) {
    case 'system':
      return turn.parts.length > 0 ? [{ role: 'system', content: joinTexts(turn.parts) }] : [];
    case 'user':
      return writeUser(turn.parts, dropped);
    case 'assistant':
      return [writeAssistant(turn.parts)];
  }
}

function joinTexts(parts: readonly TextPart[]): string {
  return parts.map(({ text }) => text).join('\n\n');
}

/** Writes each tool result as a message, followed by a user message with the results' images. */
function writeUser(parts: readonly UserPart[], dropped: Set<string>): ChatMessage[] {
  const results = parts.filter((part) => part.kind === 'tool_result');
  const attached = results.flatMap((result) => result.parts.filter((part) => part.kind !== 'text'));
  const otherParts = parts.filter((part) => part.kind !== 'tool_result');
  const content = [...attached, ...otherParts].flatMap((part) => writePart(part, dropped));
  const messages: ChatMessage[] = results.map(writeToolResult);
  const [only] = content;
  if (content.length === 1 && only?.type === 'text')
    messages.push({ role: 'user', content: only.text });
  else if (content.length > 0) messages.push({ role: 'user', content });
  else if (results.length === 0) messages.push({ role: 'user', content: '' });
  return messages;
}

function writeToolResult({ callId, parts, isError }: ToolResultPart): ChatMessage {
  const texts = parts.filter((part) => part.kind === 'text');
  const imageCount = parts.length - texts.length;
  const note = imageCount > 0 ? [attachedNote(imageCount)] : [];
  const text = [...texts.map((part) => part.text), ...note].join('\n\n');
  return { role: 'tool', tool_call_id: callId, content: isError ? `Error: ${text}` : text };
}

function writePart(
  part: Exclude<UserPart, ToolResultPart>,
  dropped: Set<string>,
): readonly ContentPart[] {
  switch (part.kind) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }];
    case 'image':
      return [writeImage(part)];
    case 'audio':
      return [{ type: 'input_audio', input_audio: { data: part.data, format: part.format } }];
    case 'document':
      return writeDocument(part, dropped);
  }
}

function writeImage({ url, detail }: ImagePart): ContentPart {
  return { type: 'image_url', image_url: detail ? { url, detail } : { url } };
}

function writeDocument({ source, name }: DocumentPart, dropped: Set<string>): ContentPart[] {
  if ('text' in source) return [{ type: 'text', text: documentText(source.text, name) }];
  const filename = name ?? 'document.pdf';
  if ('fileId' in source) return [{ type: 'file', file: { file_id: source.fileId } }];
  if (/^data:/i.test(source.url)) {
    return [{ type: 'file', file: { filename, file_data: source.url } }];
  }
  // The chat format supports documents only as bytes.
  dropped.add('document.url');
  return [{ type: 'text', text: `Document: ${source.url}` }];
}

function writeAssistant(parts: readonly AssistantPart[]): ChatMessage {
  const texts = parts.filter((part) => part.kind === 'text').map(({ text }) => text);
  const refusals = parts.filter((part) => part.kind === 'refusal').map(({ text }) => text);
  const calls = parts.filter((part) => part.kind === 'tool_call');
  const blocks = parts.filter((part) => part.kind === 'reasoning');
  const content = texts.join('');
  const reasoning = blocks.map(({ text }) => text).join('');
  const details = blocks.flatMap(({ text, signature, redacted }, index): object[] => {
    const type = 'reasoning.encrypted';
    if (redacted !== undefined) return [{ type, ...splitEncrypted(redacted), index }];
    return signature === undefined ? [] : [{ type: 'reasoning.text', text, signature, index }];
  });
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(refusals.length > 0 ? { refusal: refusals.join('') } : {}),
    ...(reasoning === '' ? {} : { reasoning }),
    ...(details.length === 0 ? {} : { reasoning_details: details }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name, arguments: json }) => ({
            id,
            type: 'function' as const,
            function: { name, arguments: json },
          })),
        }),
  };
}

function writeTool({ name, description, parameters, strict }: Tool) {
  return {
    type: 'function' as const,
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: functionSchema(parameters, strict),
      ...(strict === undefined ? {} : { strict }),
    },
  };
}

function writeToolChoice({
  tools,
  toolChoice,
}: Prompt): NonNullable<ChatBody['tool_choice']> | null {
  if (tools.length === 0 || toolChoice === null) return null;
  if (typeof toolChoice === 'string') return toolChoice;
  return { type: 'function', function: { name: toolChoice.name } };
}

function writeFormat({ json }: Prompt): NonNullable<ChatBody['response_format']> | null {
  if (json === null) return null;
  if (json.schema === null) return { type: 'json_object' };
  const { name, schema, description, strict } = json;
  const extras = {
    ...(description === undefined ? {} : { description }),
    ...(strict === undefined ? {} : { strict }),
  };
  return { type: 'json_schema', json_schema: { name, schema: { ...schema }, ...extras } };
}
