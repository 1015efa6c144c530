/** Parses a request without using the gateway's code. */

import type { RequestHead } from './request-reader.ts';

export type Endpoint =
  | 'openai-chat'
  | 'anthropic-messages'
  | 'anthropic-count'
  | 'bedrock-converse'
  | 'embeddings'
  | 'speech'
  | 'transcription'
  | 'images'
  | 'other';

interface UploadedFile {
  readonly field: string;
  readonly name: string;
  readonly type: string;
  readonly bytes: Uint8Array;
}

export interface Form {
  readonly fields: Readonly<Record<string, readonly string[]>>;
  readonly files: readonly UploadedFile[];
}

export interface ParsedRequest {
  readonly endpoint: Endpoint;
  /** Undefined if the body isn't JSON. */
  readonly json: unknown;
  /** Undefined if the body isn't multipart. */
  readonly form: Form | undefined;
  readonly model: string | undefined;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly promptTokens: number;
  readonly lastMessage: string;
}

export function countWords(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}

function endpointOf(path: string): Endpoint {
  const [plain = ''] = path.split('?');
  if (plain.endsWith('/chat/completions')) return 'openai-chat';
  if (plain.endsWith('/messages')) return 'anthropic-messages';
  if (plain.endsWith('/messages/count_tokens')) return 'anthropic-count';
  if (/\/converse(?:-stream)?$/.test(plain)) return 'bedrock-converse';
  if (plain.endsWith('/embeddings')) return 'embeddings';
  if (plain.endsWith('/audio/speech')) return 'speech';
  if (/\/audio\/(transcriptions|translations)$/.test(plain)) return 'transcription';
  if (/\/images\/(generations|edits)$/.test(plain)) return 'images';
  return 'other';
}

export async function parseRequest(head: RequestHead, raw: Uint8Array): Promise<ParsedRequest> {
  const contentType = head.headers['content-type'] ?? '';
  const isForm = contentType.startsWith('multipart/form-data');
  const form = isForm ? await readForm(contentType, raw) : undefined;
  return parsed(head.path, isForm ? undefined : readJson(raw), form);
}

/** Returns the fields that are known before the body arrives. */
export function requestFromPath(path: string): ParsedRequest {
  return parsed(path, undefined, undefined);
}

function parsed(path: string, json: unknown, form: Form | undefined): ParsedRequest {
  const endpoint = endpointOf(path);
  const messages = listOf(field(json, 'messages'));
  return {
    endpoint,
    json,
    form,
    model: modelOf(path, json, form),
    stream: isStreamed(path, json, form),
    includeUsage: field(field(json, 'stream_options'), 'include_usage') === true,
    promptTokens: promptTokens(endpoint, json, form),
    lastMessage: textOf(messages[messages.length - 1]),
  };
}

function isStreamed(path: string, json: unknown, form: Form | undefined): boolean {
  if (path.endsWith('/converse-stream')) return true;
  return field(json, 'stream') === true || form?.fields.stream?.[0] === 'true';
}

/** Gemini, Bedrock, and Azure have the model in the path instead of the body. */
function modelOf(path: string, json: unknown, form: Form | undefined): string | undefined {
  const named = field(json, 'model') ?? form?.fields.model?.[0];
  if (typeof named === 'string') return named;
  const inPath = /\/(?:models?|deployments)\/([^/:?]+)/.exec(path)?.[1];
  return inPath === undefined ? undefined : decodeURIComponent(inPath);
}

function promptTokens(endpoint: Endpoint, json: unknown, form: Form | undefined): number {
  switch (endpoint) {
    case 'openai-chat':
    case 'anthropic-messages':
    case 'bedrock-converse':
      return messageTokens(json);
    case 'embeddings':
      return inputTokens(field(json, 'input'));
    case 'speech':
      return countWords(textOf(field(json, 'input')));
    case 'images':
      return countWords(textOf(field(json, 'prompt') ?? form?.fields.prompt?.[0]));
    // Requests for a token count use no tokens.
    case 'anthropic-count':
    case 'transcription':
    case 'other':
      return 0;
  }
}

export function messageTokens(json: unknown): number {
  return countWords(`${textOf(field(json, 'system'))} ${textOf(field(json, 'messages'))}`);
}

/** Counts the tokens of an embedding input, which is text or an array of token IDs. */
function inputTokens(input: unknown): number {
  if (typeof input === 'number') return 1;
  if (Array.isArray(input)) return input.reduce<number>((sum, item) => sum + inputTokens(item), 0);
  return countWords(textOf(input));
}

/** Returns the text of a message, its parts, and nested tool results. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(textOf).join(' ');
  return value === undefined || value === null
    ? ''
    : textOf(field(value, 'text') ?? field(value, 'content'));
}

export function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function readJson(raw: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(raw).toString('utf8'));
  } catch {
    return undefined;
  }
}

async function readForm(contentType: string, raw: Uint8Array): Promise<Form | undefined> {
  const fields: Record<string, string[]> = {};
  const files: UploadedFile[] = [];
  try {
    const headers = { 'content-type': contentType };
    const data = await new Response(Buffer.from(raw), { headers }).formData();
    for (const [name, value] of data.entries()) {
      if (typeof value === 'string') {
        fields[name] = [...(fields[name] ?? []), value];
      } else {
        const bytes = new Uint8Array(await value.arrayBuffer());
        files.push({ field: name, name: value.name, type: value.type, bytes });
      }
    }
  } catch {
    return undefined;
  }
  return { fields, files };
}
