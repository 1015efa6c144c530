import type { Quirks } from '../../config/provider-schema.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import type { ChatRequest, Source } from './chat-request.ts';
import { adaptMessages } from './upstream-messages.ts';

type Body = ChatRequest['body'] & Record<string, unknown>;
/** Fields to set, or to leave out where the value is undefined. */
type Edits = Record<string, unknown>;

/** Words between the client and us; no upstream knows them. */
const ours = [
  'models',
  'provider',
  'route',
  'input',
  'instructions',
  'reasoning',
  'reasoning_effort',
  'usage',
  'skills',
  'plugins',
];

const sampling = [
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'top_logprobs',
];

/** An OpenAI client's request for an OpenAI-style upstream: the same words, edited as needed. */
export function writeChat(request: ChatRequest, target: Target): UpstreamRequest {
  const { quirks } = target;
  const body: Body = request.body;
  const edits: Edits = { model: target.upstreamModel };
  for (const name of ours) if (name in body) edits[name] = undefined;
  limitOutput(body, target, edits);
  askForUsage(body, quirks, edits);
  const reasons = setEffort(body, quirks, edits);
  if (reasons && quirks.sampling_while_reasoning === 'drop') {
    for (const name of sampling) if (name in body) edits[name] = undefined;
  }
  if (body.tool_choice === 'required' && quirks.tool_choice_required === 'any') {
    edits.tool_choice = 'any';
  }
  const messages = adaptMessages(body.messages, body.response_format, quirks, target.images);
  if (messages !== body.messages) {
    edits.messages = messages;
    if (quirks.json_schema === 'instruct' && body.response_format?.type === 'json_schema') {
      edits.response_format = { type: 'json_object' };
    }
  }
  rename(body, quirks, edits);
  return { path: '/chat/completions', headers: {}, body: apply(request, edits) };
}

function limitOutput(body: Body, { outputTokensMax, quirks }: Target, edits: Edits): void {
  const given = body.max_completion_tokens ?? body.max_tokens ?? null;
  const limit = outputTokensMax ?? given;
  if (limit === null) return;
  const field =
    quirks.output_limit ?? (body.max_completion_tokens ? 'max_completion_tokens' : 'max_tokens');
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  if (body[field] !== limit) edits[field] = limit;
  if (other in body) edits[other] = undefined;
}

/** Always ask for usage, whatever the client asked: the bill depends on it. */
function askForUsage(body: Body, quirks: Quirks, edits: Edits): void {
  if (body.stream !== true || quirks.stream_usage === 'always') {
    if ('stream_options' in body) edits.stream_options = undefined;
  } else if (body.stream_options?.include_usage !== true) {
    edits.stream_options = { ...body.stream_options, include_usage: true };
  }
}

/** Puts the effort in the vendor's words. True when the model will reason because of it. */
function setEffort(body: Body, quirks: Quirks, edits: Edits): boolean {
  const asked = body.reasoning_effort ?? body.reasoning?.effort ?? null;
  const effort = asked ?? (body.reasoning?.enabled === false ? 'none' : null);
  const word = effort === null ? undefined : quirks.efforts ? quirks.efforts[effort] : effort;
  if (word !== undefined) edits.reasoning_effort = word;
  // Without a word from the client, a model with effort levels reasons by default.
  return word === undefined ? quirks.efforts !== undefined : word !== 'none';
}

function rename(body: Body, quirks: Quirks, edits: Edits): void {
  for (const name of quirks.drop_params ?? []) if (name in body) edits[name] = undefined;
  for (const [name, theirs] of Object.entries(quirks.rename_params ?? {})) {
    if (body[name] === undefined || body[name] === null) continue;
    edits[theirs] = body[name];
    edits[name] = undefined;
  }
}

/**
 * Writing a large body again costs more than everything else on the way. So when the only changes
 * are the model's name, standing first in the body as SDKs write it, and fields that were not
 * there before, the client's bytes go on behind a new beginning.
 */
function apply({ body, source }: ChatRequest, edits: Edits): string {
  const { model, ...rest } = edits;
  const onlyAdds = Object.keys(rest).every((name) => rest[name] !== undefined && !(name in body));
  const head = onlyAdds && source ? modelField(source.text, body.model) : undefined;
  if (head === undefined || !source || hasDoubles(source, body)) {
    return JSON.stringify({ ...body, ...edits });
  }
  let start = `{"model":${JSON.stringify(model)}`;
  for (const name of Object.keys(rest)) start += `,"${name}":${JSON.stringify(rest[name])}`;
  return start + source.text.slice(head);
}

/** Where `{"model":"…"` ends, if the body starts with exactly that. */
function modelField(text: string, model: string | null | undefined): number | undefined {
  const usual = `{"model":"${model}"`;
  if (text.startsWith(usual) && isPlainName(model)) return usual.length;
  const match = /^\s*\{\s*"model"\s*:\s*("[\x20\x21\x23-\x5b\x5d-\x7e]*")/.exec(text.slice(0, 300));
  return match && match[1] === JSON.stringify(model) ? match[0].length : undefined;
}

/** A name that JSON writes as it is. */
function isPlainName(model: string | null | undefined): boolean {
  return typeof model === 'string' && /^[\w./:@+-]+$/.test(model);
}

/** Names that decide what is called and what it may cost. */
const decisive = ['model', 'max_tokens', 'max_completion_tokens', 'n'];

/** How a letter of such a name could be hidden; nobody escapes these in earnest. */
const hiddenLetters = ['\\u005', '\\u006', '\\u007'];

/**
 * Whether a decisive name may stand twice. We read the last one; a server that reads the first, or
 * finds a second `model` behind ours, would do what nobody checked or priced. A look-alike further
 * inside counts too: it only costs the time to write the body again.
 */
function hasDoubles({ bytes }: Source, body: Body): boolean {
  // Bytes are searched three times faster than text.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const hasEscapes = text.includes('\\u00');
  if (hasEscapes && hiddenLetters.some((letter) => text.includes(letter))) return true;
  return decisive.some((name) => {
    if (!(name in body)) return false;
    const key = `"${name}"`;
    return text.indexOf(key) !== text.lastIndexOf(key);
  });
}
