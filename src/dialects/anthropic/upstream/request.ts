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
import type { Target, UpstreamRequest } from '../../dialect.ts';
import { jsonInstruction } from '../../normalize/requests/generation-options.ts';
import { readDataUrl } from '../../normalize/requests/inline-data.ts';
import { cacheField } from '../../normalize/requests/prompt-cache.ts';
import { plainCallId } from '../../normalize/requests/tool-identifiers.ts';
import { toolInput } from '../../normalize/responses/tool-arguments.ts';
import { isAnthropicRedacted, ownSignature } from '../../normalize/signature.ts';
import { withNeededBetas } from '../betas.ts';
import { defaultVersion, messagesEndpoint } from '../hosts.ts';
import { enforcesStrict, outputSchema, toolSchema } from './json-schema.ts';
import { toSupportedPrompt, writeLimits } from './parameters.ts';

// Writes a prompt as a request to an Anthropic-style upstream.

export function writeMessages(requested: Prompt, target: Target): UpstreamRequest {
  const { prompt, reasoning, outputTokensMax, dropped } = toSupportedPrompt(requested, target);
  const { system, messages } = writeTurns(prompt, target, reasoning.isOn, dropped);
  const { effort } = reasoning;
  const { instruction, format } = writeJson(prompt, target);
  const instructions = instruction ? [...system, instruction] : system;
  const version = withNeededBetas({ version: defaultVersion, betas: '' }, { messages });
  const { path, headers, fields } = messagesEndpoint(target, prompt.stream, version);
  const body = {
    ...fields,
    max_tokens: outputTokensMax,
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    ...writeTools(prompt, target, dropped),
    thinking: reasoning.thinking,
    output_config: effort || format ? { effort, format } : undefined,
    ...writeSampling(prompt, dropped),
    metadata: prompt.user ? { user_id: prompt.user } : undefined,
    ...cacheField(prompt),
    stream: prompt.stream ? true : undefined,
  };
  return { path, headers, body: JSON.stringify(body), dropped: [...dropped] };
}

function writeSampling(prompt: Prompt, dropped: Set<string>): object {
  const { temperature, stops } = writeLimits(prompt, dropped);
  const { topP, topK } = prompt.sampling;
  return { temperature, top_p: topP, top_k: topK, stop_sequences: stops };
}

function writeTools(prompt: Prompt, { quirks }: Target, dropped: Set<string>): object {
  const { tools, toolChoice, parallelTools } = prompt;
  if (tools.length === 0) return {};
  const parallel = parallelTools === false ? { disable_parallel_tool_use: true } : {};
  const isSpecified = toolChoice !== null || parallelTools === false;
  const isEnforced = enforcesStrict(tools, quirks.json_schema !== 'instruct', dropped);
  return {
    tools: tools.map((tool) => writeTool(tool, isEnforced)),
    tool_choice: isSpecified ? writeChoice(toolChoice, parallel) : undefined,
  };
}

function writeChoice(choice: Prompt['toolChoice'], parallel: object): object {
  if (choice === 'none') return { type: 'none' };
  if (choice === 'required') return { type: 'any', ...parallel };
  if (choice === null || choice === 'auto') return { type: 'auto', ...parallel };
  return { type: 'tool', name: choice.name, ...parallel };
}

function writeTool(tool: Tool, isEnforced: boolean): object {
  const { name, description, strict } = tool;
  return {
    name,
    description,
    input_schema: toolSchema(tool, isEnforced),
    strict: isEnforced ? strict : undefined,
    ...cacheField(tool),
  };
}

function writeJson({ json }: Prompt, { quirks }: Target) {
  if (json === null) return {};
  if (json.schema === null || quirks.json_schema === 'instruct') {
    const instruction: Block = { type: 'text', text: jsonInstruction(json.schema) };
    return { instruction };
  }
  return { format: { type: 'json_schema', schema: outputSchema(json.schema) } };
}

// Writes turns as Anthropic's `system` and `messages`.

function writeTurns({ turns }: Prompt, target: Target, isThinking: boolean, dropped: Set<string>) {
  return toAlternatingTurns<Block>(turns, {
    text: writeText,
    assistantPart: writeAssistantPart,
    userPart: (part) => writeUserPart(part, dropped),
    arrange: resultsFirst,
    // Older models accept instructions only in `system`.
    allowsInlineSystem: target.quirks.system_messages === 'keep',
    needsUserTurn: isThinking || target.thinking === 'adaptive',
  });
}

/** Moves tool results to the front, because Anthropic finds them only there. */
function resultsFirst(content: readonly Block[]): readonly Block[] {
  const results = content.filter(({ type }) => type === 'tool_result');
  return [...results, ...content.filter(({ type }) => type !== 'tool_result')];
}

// Separates the instructions and makes roles alternate, as Anthropic and Bedrock require.

interface Message<Block> {
  readonly role: Turn['role'];
  readonly content: readonly Block[];
}

interface AlternatingTurns<Block> {
  readonly system: readonly Block[];
  readonly messages: readonly Message<Block>[];
}

/** Writes turns in the format of one of the two APIs. */
interface TurnWriter<Block> {
  text(part: TextPart): readonly Block[];
  assistantPart(part: AssistantPart): readonly Block[];
  userPart(part: UserPart): readonly Block[];
  /** Returns the blocks of a user message in the order that this upstream requires. */
  arrange(content: readonly Block[]): readonly Block[];
  /** True if instructions may be in the middle of the conversation, not only at its start. */
  readonly allowsInlineSystem: boolean;
  /** True if the model can't continue an assistant message, so that a user turn must follow. */
  readonly needsUserTurn: boolean;
}

/** Sent where the API requires a user message but the prompt has none. */
const continueMessage: TextPart = { kind: 'text', text: 'Continue.' };

export function toAlternatingTurns<Block extends Readonly<Record<string, unknown>>>(
  turns: readonly Turn[],
  writer: TurnWriter<Block>,
): AlternatingTurns<Block> {
  const system: Block[] = [];
  const merged: { readonly role: Turn['role']; readonly content: Block[] }[] = [];
  for (const turn of turns) {
    const content = writeTurn(turn, writer);
    if (content.length === 0) continue;
    const last = merged.at(-1);
    const isInline = writer.allowsInlineSystem && last !== undefined;
    // Merge consecutive turns of one role. Copy each block once, not once per turn.
    if (turn.role === 'system' && !isInline) for (const block of content) system.push(block);
    else if (last?.role === turn.role) for (const block of content) last.content.push(block);
    else merged.push({ role: turn.role, content: [...content] });
  }
  const messages: Message<Block>[] = merged.map(({ role, content }) => ({
    role,
    content: role === 'user' ? writer.arrange(content) : content,
  }));
  const continueTurn = { role: 'user' as const, content: writer.text(continueMessage) };
  if (messages[0]?.role !== 'user') messages.unshift(continueTurn);
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return { system, messages };
  if (writer.needsUserTurn) return { system, messages: [...messages, continueTurn] };
  return { system, messages: messages.with(-1, withoutLastSpace(last)) };
}

function writeTurn<Block>(turn: Turn, writer: TurnWriter<Block>): readonly Block[] {
  switch (turn.role) {
    case 'system':
      return turn.parts.flatMap((part) => writer.text(part));
    case 'assistant':
      return turn.parts.flatMap((part) => writer.assistantPart(part));
    case 'user':
      return turn.parts.flatMap((part) => writer.userPart(part));
  }
}

/** Trims the last answer, because an upstream that continues it rejects a trailing space. */
function withoutLastSpace<Block extends Readonly<Record<string, unknown>>>(
  answer: Message<Block>,
): Message<Block> {
  const { role, content } = answer;
  const at = content.findLastIndex((block) => !('cachePoint' in block));
  const block = content[at];
  if (typeof block?.text !== 'string') return answer;
  return { role, content: content.with(at, { ...block, text: block.text.trimEnd() }) };
}

// Writes prompt parts as Anthropic's content blocks.

type Block = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Drops blank text, which Anthropic rejects. */
function writeText(part: TextPart): readonly Block[] {
  if (part.text.trim() === '') return [];
  return [{ type: 'text', text: part.text, ...cacheField(part) }];
}

function writeAssistantPart(part: AssistantPart): readonly Block[] {
  switch (part.kind) {
    case 'text':
      return writeText(part);
    case 'refusal':
      return writeText({ kind: 'text', text: part.text });
    case 'reasoning': {
      // Anthropic rejects thinking that it didn't sign.
      if (isAnthropicRedacted(part.redacted))
        return [{ type: 'redacted_thinking', data: part.redacted }];
      const signature = ownSignature('anthropic', part.signature);
      return signature === undefined ? [] : [{ type: 'thinking', thinking: part.text, signature }];
    }
    case 'tool_call': {
      const input = toolInput(part.arguments);
      return [
        { type: 'tool_use', id: plainCallId(part.id), name: part.name, input, ...cacheField(part) },
      ];
    }
  }
}

function writeUserPart(part: UserPart, dropped: Set<string>): readonly Block[] {
  switch (part.kind) {
    case 'tool_result':
      return [writeResult(part)];
    case 'audio':
      dropped.add('input_audio');
      return [];
    default:
      return writeContent(part);
  }
}

function writeContent(part: TextPart | ImagePart | DocumentPart): readonly Block[] {
  switch (part.kind) {
    case 'text':
      return writeText(part);
    case 'image':
      return [{ type: 'image', source: imageSource(part.url), ...cacheField(part) }];
    case 'document': {
      const source = documentSource(part);
      return [{ type: 'document', source, title: part.name, ...cacheField(part) }];
    }
  }
}

function writeResult(part: ToolResultPart): Block {
  const blocks = part.parts.flatMap(writeContent);
  return {
    type: 'tool_result',
    tool_use_id: plainCallId(part.callId),
    content: blocks.length > 0 ? blocks : undefined,
    is_error: part.isError ? true : undefined,
    ...cacheField(part),
  };
}

/** Returns the source of a `data:` URL; undefined for any other URL. */
function base64Source(url: string) {
  const inline = readDataUrl(url);
  if (!inline) return undefined;
  return { type: 'base64', media_type: inline.mediaType, data: inline.base64 };
}

export function imageSource(url: string): object {
  return base64Source(url) ?? { type: 'url', url };
}

function documentSource({ source }: DocumentPart): object {
  if ('text' in source) return textSource(source.text);
  if ('fileId' in source) return { type: 'file', file_id: source.fileId };
  const bytes = base64Source(source.url);
  if (!bytes) return { type: 'url', url: source.url };
  // Anthropic accepts only PDFs as bytes. Send text documents as plain text.
  if (!bytes.media_type.startsWith('text/')) return bytes;
  return textSource(Buffer.from(bytes.data, 'base64').toString('utf8'));
}

function textSource(data: string): object {
  return { type: 'text', media_type: 'text/plain', data };
}
