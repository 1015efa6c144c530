/** The messages of an OpenAI client as turns. */
import type {
  AssistantPart,
  ReasoningPart,
  TextPart,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../core/dialogue.ts';
import { isText, objectsIn } from '../../core/json.ts';
import { cacheMark } from '../ask/cache-marks.ts';
import { readDataUrl } from '../ask/content/data-url.ts';
import { addressOfBytes } from '../ask/content/inline-content.ts';
import { markEncrypted } from '../signature.ts';
import type { ToolCall } from './chat-schema.ts';
import type { ToolMessage } from './functions.ts';
import { googleSignature } from './google-signature.ts';
import { functionIn } from './newer-tools.ts';

type MessageOf<R extends ToolMessage['role']> = Extract<ToolMessage, { role: R }>;

export function readTurns(messages: readonly ToolMessage[]): readonly Turn[] {
  const turns: Turn[] = [];
  let results: ToolResultPart[] = [];
  const endResults = (said?: readonly UserPart[]) => {
    if (said || results.length > 0)
      turns.push({ role: 'user', parts: [...results, ...(said ?? [])] });
    results = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      results.push(readToolResult(message));
      continue;
    }
    // What the user says after results of tools is one turn with them.
    endResults(message.role === 'user' ? marked(message, readUserParts(message)) : undefined);
    if (message.role === 'assistant') {
      turns.push({ role: 'assistant', parts: marked(message, readAssistant(message)) });
    } else if (message.role !== 'user') {
      turns.push({ role: 'system', parts: marked(message, readTexts(message.content)) });
    }
  }
  endResults();
  return turns;
}

/** A cache mark on a message goes to its last part that can have one, unless that has its own. */
function marked<P extends UserPart | AssistantPart>(message: object, parts: readonly P[]) {
  const mark = cacheMark(message);
  if (mark.cacheControl === undefined) return parts;
  const at = parts.findLastIndex(({ kind }) => !unmarkable.has(kind));
  return parts.map((part, place) => (place === at ? { ...mark, ...part } : part));
}

const unmarkable: ReadonlySet<string> = new Set(['audio', 'reasoning', 'refusal']);

function readTexts(content: string | readonly { text: string }[]): readonly TextPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  return content.map(readText);
}

function readText(part: { text: string }): TextPart {
  return { kind: 'text', text: part.text, ...cacheMark(part) };
}

function readUserParts({ content }: MessageOf<'user'>): readonly UserPart[] {
  if (typeof content === 'string') return readTexts(content);
  return content.map(readUserPart);
}

type UserContent = Exclude<MessageOf<'user'>['content'], string>[number];

function readUserPart(part: UserContent): UserPart {
  switch (part.type) {
    case 'text':
      return readText(part);
    case 'image_url': {
      const { url, detail } = part.image_url;
      // Clients of LiteLLM send a PDF where pictures go.
      const isPdf = readDataUrl(url)?.mediaType === 'application/pdf';
      if (isPdf) return { kind: 'document', source: { url }, ...cacheMark(part) };
      return { kind: 'image', url, detail: detail || undefined, ...cacheMark(part) };
    }
    case 'input_audio':
      return { kind: 'audio', data: part.input_audio.data, format: part.input_audio.format };
    case 'file': {
      const { file_data: data, file_id: id, filename } = part.file;
      const source = data ? { url: addressOfBytes(data) } : { fileId: id ?? '' };
      return { kind: 'document', source, name: filename || undefined, ...cacheMark(part) };
    }
  }
}

/**
 * A cache mark on a part of a result goes to the result itself, where marks are counted: requests
 * may have four.
 */
function readToolResult(message: MessageOf<'tool'>): ToolResultPart {
  const { content, tool_call_id: callId } = message;
  const isOne = typeof content === 'string';
  const parts = isOne ? readTexts(content) : content.map(readShown);
  const holders = isOne ? [message] : [message, ...content];
  const mark = holders.map(cacheMark).find(({ cacheControl }) => cacheControl);
  return { kind: 'tool_result', callId, parts, isError: false, ...mark };
}

function readShown(part: Exclude<MessageOf<'tool'>['content'], string>[number]) {
  if (part.type === 'text') return { kind: 'text' as const, text: part.text };
  return { kind: 'image' as const, url: part.image_url.url };
}

function readAssistant(message: MessageOf<'assistant'>): readonly AssistantPart[] {
  const { content, refusal } = message;
  const said = typeof content === 'string' ? readTexts(content) : (content ?? []).map(readSaid);
  const reasoning = readReasoning(message);
  const proofs = new Map(reasoning.map((thought) => [thought.signature, thought]));
  const calls = (message.tool_calls ?? []).flatMap((call) => readCall(call, proofs));
  const onCalls = new Set(
    calls.flatMap((part) => (part.kind === 'reasoning' ? part.signature : [])),
  );
  // A signature that also stands on a call belongs to the call, and so does the thought it proves.
  const thoughts = reasoning.filter(({ signature }) => !onCalls.has(signature));
  // In an answer of nothing but signed calls, a signature that none of them has came after them.
  const isLast = ({ text, signature }: ReasoningPart) =>
    onCalls.size > 0 && said.length === 0 && text === '' && signature !== undefined;
  return [
    ...thoughts.filter((thought) => !isLast(thought)),
    ...said,
    ...(refusal ? [{ kind: 'refusal' as const, text: refusal }] : []),
    ...calls,
    ...thoughts.filter(isLast),
  ];
}

type AssistantContent = Exclude<NonNullable<MessageOf<'assistant'>['content']>, string>[number];

function readSaid(part: AssistantContent): AssistantPart {
  return part.type === 'refusal' ? { kind: 'refusal', text: part.refusal } : readText(part);
}

/** A call, after the thought that its signature proves, or after the bare signature. */
function readCall(call: ToolCall, proofs: Map<string | undefined, ReasoningPart>): AssistantPart[] {
  const { name, arguments: json } = functionIn(call);
  const said = { id: call.id, name, arguments: json };
  const read: AssistantPart = { kind: 'tool_call', ...said, ...cacheMark(call) };
  const signature = googleSignature(call);
  if (signature === undefined) return [read];
  const proved = proofs.get(signature);
  // Once: repeated before every call of one signature, a long thought would grow without bound.
  proofs.delete(signature);
  return [proved ?? { kind: 'reasoning', text: '', signature }, read];
}

/**
 * Thoughts come back as `reasoning_details`, in as many pieces as they were streamed in, or as bare
 * text from clients that keep nothing else.
 */
function readReasoning(message: MessageOf<'assistant'>): readonly ReasoningPart[] {
  const { reasoning_details: details } = message as { reasoning_details?: unknown };
  const thoughts = new Map<unknown, ReasoningPart>();
  const pieces = objectsIn(details);
  for (const [at, piece] of pieces.entries()) {
    const place = piece.index ?? at;
    const { signature, data } = piece;
    const before = thoughts.get(place) ?? { kind: 'reasoning', text: '' };
    const more = [piece.text, piece.summary].find(isText) ?? '';
    thoughts.set(place, {
      ...before,
      text: before.text + more,
      ...(isText(signature) ? { signature } : {}),
      ...(piece.type === 'reasoning.encrypted' && typeof data === 'string'
        ? { redacted: markEncrypted(piece.format, data) }
        : {}),
    });
  }
  if (thoughts.size > 0) return [...thoughts.values()];
  const text = message.reasoning ?? message.reasoning_content;
  return text ? [{ kind: 'reasoning', text }] : [];
}
