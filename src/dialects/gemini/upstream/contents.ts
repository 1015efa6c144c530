/** Writes the turns of a prompt as Gemini's `contents`. */
import type {
  AssistantPart,
  DocumentPart,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { documentText, readDataUrl } from '../../normalize/requests/inline-data.ts';
import { toolInput } from '../../normalize/responses/tool-arguments.ts';
import { ownSignature } from '../../normalize/signature.ts';
import { isGemini3OrLater } from './model.ts';

export interface Content {
  readonly role: 'user' | 'model';
  readonly parts: object[];
}

/** Google's placeholder for a missing signature. A call without a signature is rejected. */
const placeholderSignature = 'skip_thought_signature_validator';

/**
 * Writes contents that alternate between user and model and start with the user, as Gemini
 * requires.
 */
export function writeContents(turns: readonly Turn[], target: Target): readonly Content[] {
  const contents: Content[] = [];
  const calls = new Map<string, KnownCall>();
  const isGemini3 = isGemini3OrLater(target);
  for (const { role, parts } of mergeNeighbors(turns)) {
    const written =
      role === 'user' ? writeUserParts(parts, calls, isGemini3) : writeModelParts(parts, isGemini3);
    if (role === 'model') recordCalls(parts, calls);
    if (written.length === 0) continue;
    const last = contents.at(-1);
    if (last?.role === role) for (const part of written) last.parts.push(part);
    else contents.push({ role, parts: written });
  }
  if (contents[0]?.role === 'model') contents.unshift({ role: 'user', parts: [{ text: ' ' }] });
  return contents;
}

type Side =
  | { readonly role: 'user'; readonly parts: UserPart[] }
  | { readonly role: 'model'; readonly parts: AssistantPart[] };

/**
 * Merges consecutive turns of the same side. Each part is copied only once. Otherwise, merging
 * 10,000 consecutive messages would take a second.
 */
function mergeNeighbors(turns: readonly Turn[]): readonly Side[] {
  const sides: Side[] = [];
  for (const turn of turns) {
    if (turn.role === 'system') continue;
    const last = sides.at(-1);
    if (turn.role === 'user') {
      if (last?.role !== 'user') sides.push({ role: 'user', parts: [...turn.parts] });
      else for (const part of turn.parts) last.parts.push(part);
    } else if (last?.role !== 'model') sides.push({ role: 'model', parts: [...turn.parts] });
    else for (const part of turn.parts) last.parts.push(part);
  }
  return sides;
}

interface KnownCall {
  readonly name: string;
  readonly index: number;
}

function recordCalls(parts: readonly AssistantPart[], calls: Map<string, KnownCall>): void {
  for (const part of parts) {
    if (part.kind === 'tool_call') calls.set(part.id, { name: part.name, index: calls.size });
  }
}

/**
 * Writes the parts of a model turn. Each signature is written on the next call. If a client sent
 * all signatures first, they are written on the calls in order. If no call follows, a signature is
 * written on an empty text part, as Gemini itself does at the end of a signed answer.
 */
class ModelParts {
  readonly written: object[] = [];
  /** Signatures that haven't been followed by text or a call yet. */
  #pending: string[] = [];
  /** Signatures that were followed by text. */
  #earlier: string[] = [];
  #hasCalls = false;
  readonly #isGemini3: boolean;

  constructor(isGemini3: boolean) {
    this.#isGemini3 = isGemini3;
  }

  text(text: string): void {
    if (text === '') return;
    this.#step();
    this.written.push({ text });
  }

  reasoning({ text, signature: prefixedSignature }: ReasoningPart): void {
    const signature = ownSignature('gemini', prefixedSignature);
    // Reasoning without Gemini's signature isn't sent.
    if (signature === undefined) return;
    if (text !== '') this.written.push({ text, thought: true });
    this.#pending.push(signature);
  }

  /** `group` is the number of consecutive calls, starting with this one. */
  call(call: ToolCallPart, group: number): void {
    const spare = Math.max(0, this.#pending.length - group);
    for (const signature of this.#pending.splice(0, spare)) this.#earlier.push(signature);
    const signature =
      this.#pending.shift() ?? (this.#hasCalls ? undefined : this.#firstSignature());
    this.#signEmpty();
    this.written.push({ ...writeCall(call, this.#isGemini3), thoughtSignature: signature });
    this.#hasCalls = true;
  }

  end(): object[] {
    this.#step();
    this.#signEmpty();
    return this.written;
  }

  /** Returns the signature for the first of the parallel calls. The other calls don't need one. */
  #firstSignature(): string | undefined {
    return this.#earlier.pop() ?? (this.#isGemini3 ? placeholderSignature : undefined);
  }

  #step(): void {
    for (const signature of this.#pending) this.#earlier.push(signature);
    this.#pending = [];
  }

  #signEmpty(): void {
    for (const thoughtSignature of this.#earlier) this.written.push({ text: '', thoughtSignature });
    this.#earlier = [];
  }
}

function writeModelParts(parts: readonly AssistantPart[], isGemini3: boolean): object[] {
  const model = new ModelParts(isGemini3);
  /** The end of the current sequence of calls, found once per sequence. */
  let end = 0;
  for (const [index, part] of parts.entries()) {
    end = Math.max(end, index);
    while (parts[end]?.kind === 'tool_call') end += 1;
    if (part.kind === 'reasoning') model.reasoning(part);
    else if (part.kind === 'tool_call') model.call(part, end - index);
    else model.text(part.text);
  }
  return model.end();
}

/** Omits the ID for models before Gemini 3, which match calls by name and order. */
function writeCall({ id, name, arguments: json }: ToolCallPart, isGemini3: boolean): object {
  return { functionCall: { id: isGemini3 ? id : undefined, name, args: toolInput(json) } };
}

/** Writes the parts of a user turn, with the results first and in the order of their calls. */
function writeUserParts(
  parts: readonly UserPart[],
  calls: ReadonlyMap<string, KnownCall>,
  isGemini3: boolean,
): object[] {
  const results = parts.filter((part) => part.kind === 'tool_result');
  const indexOf = ({ callId }: ToolResultPart) => calls.get(callId)?.index ?? calls.size;
  const inOrder = results.toSorted((a, b) => indexOf(a) - indexOf(b));
  const written = inOrder.map((result) => writeResult(result, calls.get(result.callId), isGemini3));
  return [
    ...written.map(({ response }) => response),
    ...written.flatMap(({ beside }) => beside),
    ...parts.flatMap((part) => (part.kind === 'tool_result' ? [] : writeUserPart(part))),
  ];
}

interface WrittenResult {
  readonly response: object;
  /** Media that can't be inside the result. */
  readonly beside: readonly object[];
}

function writeResult(
  { callId, parts, isError }: ToolResultPart,
  call: KnownCall | undefined,
  isGemini3: boolean,
): WrittenResult {
  const texts = parts.flatMap((part) => {
    if (part.kind === 'text') return [part.text];
    return part.kind === 'document' ? documentTexts(part) : [];
  });
  const media = parts.flatMap((part) => {
    if (part.kind === 'text') return [];
    return part.kind === 'image' ? [writeFileByUrl(part.url)] : writeFile(part);
  });
  const text = texts.join('\n\n');
  // Write the result as text: its call is no longer in the conversation, and Gemini rejects a
  // result without a call.
  if (call === undefined) return { response: { text: text || ' ' }, beside: media };
  const isInside = isGemini3 && media.length > 0 && media.every((part) => 'inlineData' in part);
  const functionResponse = {
    id: isGemini3 ? callId : undefined,
    name: call.name,
    response: isError ? { error: text } : { output: text },
    parts: isInside ? media : undefined,
  };
  return { response: { functionResponse }, beside: isInside ? [] : media };
}

function writeUserPart(part: Exclude<UserPart, ToolResultPart>): object[] {
  switch (part.kind) {
    case 'text':
      return part.text === '' ? [] : [{ text: part.text }];
    case 'image':
      return [writeFileByUrl(part.url)];
    case 'audio':
      return [{ inlineData: { mimeType: `audio/${part.format}`, data: part.data } }];
    case 'document':
      return [...documentTexts(part).map((text) => ({ text })), ...writeFile(part)];
  }
}

function documentTexts({ source, name }: DocumentPart): readonly string[] {
  return 'text' in source && source.text !== '' ? [documentText(source.text, name)] : [];
}

function writeFile({ source }: DocumentPart): object[] {
  if ('text' in source) return [];
  return [writeFileByUrl('url' in source ? source.url : source.fileId)];
}

/**
 * Writes a file. URLs other than `data:` are sent unchanged, and Gemini fetches or rejects them.
 */
function writeFileByUrl(url: string): object {
  const inline = readDataUrl(url);
  if (inline === undefined) return { fileData: { mimeType: typeByName(url), fileUri: url } };
  return { inlineData: { mimeType: inline.mediaType, data: inline.base64 } };
}

const typesByEnding: ReadonlyMap<string, string> = new Map([
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
]);

/** Guesses a file's media type, which Vertex AI requires. The Gemini API detects it. */
function typeByName(url: string): string | undefined {
  const [path = ''] = url.split(/[?#]/, 1);
  return typesByEnding.get(path.slice(path.lastIndexOf('.') + 1).toLowerCase());
}
