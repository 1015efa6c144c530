/** Reads the fields of a chat request that the demo supports. */
import { invalidRequest } from '../core/errors.ts';
import { fieldsOf, isObject, type JsonObject, objectsIn } from '../core/json.ts';
import { delayField, flagField, integerField, textField } from './http.ts';
import { excerpt, tokensOfBytes } from './tokens.ts';
import { readToolChoice, readTools, type Tool, type ToolChoice } from './tool-calls.ts';

export interface Message {
  readonly role: string;
  readonly text: string;
  /** URLs of images: `https:` or `data:`. */
  readonly imageUrls: readonly string[];
  /** Names of the tools that the message calls. */
  readonly called: readonly string[];
}

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly promptTokens: number;
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice;
  readonly isParallel: boolean;
  readonly format: (typeof formats)[number];
  readonly schema: unknown;
  readonly stops: readonly string[];
  /** The most tokens in each choice. */
  readonly tokensMax: number;
  readonly choices: number;
  /** Null: answer without reasoning. */
  readonly effort: string | null;
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  readonly delayMs: number;
}

/** Prompt tokens of an image, audio, or file, regardless of its size. */
const tokensPerAttachment = 85;
/** OpenAI's own limit. */
const stopsMax = 4;
/** All choices of the demo are identical, so more of them would not be useful. */
const choicesMax = 16;

export function readChatRequest(body: JsonObject): ChatRequest {
  if (!Array.isArray(body.messages) || body.messages.length === 0) {
    throw invalidRequest("'messages' must be an array with at least one message.", 'messages');
  }
  const parsedMessages = body.messages.map(readMessage);
  const tools = readTools(body.tools);
  const effort = textField(body, 'reasoning_effort') ?? 'none';
  const streamOptions = fieldsOf(body.stream_options);
  return {
    model: textField(body, 'model') ?? 'demo-chat',
    messages: parsedMessages.map(({ message }) => message),
    promptTokens: promptTokens(parsedMessages, body),
    tools,
    toolChoice: readToolChoice(body.tool_choice, tools),
    isParallel: body.parallel_tool_calls !== false,
    ...readFormat(body.response_format),
    stops: readStops(body.stop),
    tokensMax: readTokensMax(body),
    choices: integerField(body, 'n', 1, choicesMax) ?? 1,
    effort: effort === 'none' ? null : excerpt(effort, 20),
    isStream: flagField(body, 'stream'),
    includeUsage: flagField(streamOptions, 'include_usage'),
    delayMs: delayField(body),
  };
}

interface ParsedMessage {
  readonly message: Message;
  readonly bytes: number;
  readonly attachments: number;
}

function readMessage(value: unknown, index: number): ParsedMessage {
  const path = `messages[${index}]`;
  if (!isObject(value)) throw invalidRequest(`'${path}' must be an object.`, path);
  const role = value.role;
  if (typeof role !== 'string') {
    throw invalidRequest(`'${path}.role' must be a string.`, `${path}.role`);
  }
  const parts = contentParts(value.content, path);
  const text = parts
    .map((part) => (typeof part.text === 'string' ? part.text : ''))
    .filter((text) => text !== '')
    .join('\n');
  const calls = value.tool_calls === undefined ? '' : JSON.stringify(value.tool_calls);
  return {
    message: { role, text, imageUrls: parts.flatMap(imageUrl), called: calledNames(value) },
    bytes: Buffer.byteLength(text) + Buffer.byteLength(calls),
    attachments: parts.filter((part) => typeof part.text !== 'string').length,
  };
}

function calledNames({ tool_calls: calls }: JsonObject): string[] {
  const names = objectsIn(calls).map((call) => fieldsOf(call.function).name);
  return names.filter((name) => typeof name === 'string');
}

function contentParts(content: unknown, path: string): JsonObject[] {
  if (content === null || content === undefined) return [];
  if (typeof content === 'string') return [{ text: content }];
  if (Array.isArray(content) && content.every(isObject)) return content;
  throw invalidRequest(
    `'${path}.content' must be a string or an array of parts.`,
    `${path}.content`,
  );
}

function imageUrl(part: JsonObject): string[] {
  const image = isObject(part.image_url) ? part.image_url.url : part.image_url;
  return typeof image === 'string' ? [image] : [];
}

function promptTokens(parsedMessages: readonly ParsedMessage[], body: JsonObject): number {
  const extras = [body.tools, body.response_format].filter(
    (extra) => isObject(extra) || Array.isArray(extra),
  );
  const bytes = [
    ...parsedMessages.map((parsed) => parsed.bytes),
    ...extras.map((extra) => Buffer.byteLength(JSON.stringify(extra))),
  ].reduce((sum, each) => sum + each, 0);
  const attachments = parsedMessages.reduce((sum, parsed) => sum + parsed.attachments, 0);
  return tokensOfBytes(bytes) + attachments * tokensPerAttachment;
}

const formats = ['text', 'json_object', 'json_schema'] as const;

function readFormat(value: unknown): Pick<ChatRequest, 'format' | 'schema'> {
  if (value === null || value === undefined) return { format: 'text', schema: undefined };
  if (!isObject(value)) {
    throw invalidRequest("'response_format' must be an object.", 'response_format');
  }
  const format = formats.find((known) => known === value.type);
  if (format === undefined) {
    throw invalidRequest(
      `'response_format.type' must be one of ${formats.join(', ')}.`,
      'response_format.type',
    );
  }
  if (format !== 'json_schema') return { format, schema: undefined };
  if (isObject(value.json_schema) && isObject(value.json_schema.schema)) {
    return { format, schema: value.json_schema.schema };
  }
  throw invalidRequest(
    "'response_format.json_schema.schema' must be an object.",
    'response_format.json_schema.schema',
  );
}

function readStops(value: unknown): string[] {
  if (value === null || value === undefined) return [];
  const stops: unknown[] = Array.isArray(value) ? value : [value];
  const texts = stops.filter((stop) => typeof stop === 'string' && stop !== '');
  if (texts.length === stops.length && stops.length <= stopsMax) return texts.map(String);
  throw invalidRequest(`'stop' must be a string or up to ${stopsMax} strings, none empty.`, 'stop');
}

function readTokensMax(body: JsonObject): number {
  const max = Number.MAX_SAFE_INTEGER;
  const older = integerField(body, 'max_tokens', 1, max);
  return integerField(body, 'max_completion_tokens', 1, max) ?? older ?? Number.POSITIVE_INFINITY;
}
