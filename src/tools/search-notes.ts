import { searchNotesLengthMax } from '../core/bounds.ts';
import { parseJson } from '../core/json.ts';
import type { AssistantPart, Prompt, ToolResultPart, Turn } from '../core/prompt.ts';
import type { FoundPage } from './citations.ts';

/** Searches of a turn that also called the client's tools; the client sees its own calls only. */
export interface SearchNote {
  /** The name by which the model knows our tool. */
  readonly toolName: string;
  readonly calls: readonly { readonly id: string; readonly arguments: string }[];
  readonly results: readonly ToolResultPart[];
  /** All pages found so far, in earlier turns too, in the order of their numbers. */
  readonly pages: readonly FoundPage[];
}

interface ClientCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

interface Restored {
  readonly prompt: Prompt;
  /** The pages that numbers in the dialogue refer to, from the first on. */
  readonly pages: readonly FoundPage[];
}

interface StoredNote {
  readonly note: SearchNote;
  readonly length: number;
}

/**
 * What the gateway searched beside a client's own calls, put back into the conversation when the
 * client returns with its results. Kept in this process for as long as there is room: if it is
 * lost, the model only has to search once more.
 */
export class SearchNotes {
  readonly #lengthMax: number;
  /** Oldest first. */
  readonly #notes = new Map<string, StoredNote>();
  #length = 0;

  constructor(lengthMax = searchNotesLengthMax) {
    this.#lengthMax = lengthMax;
  }

  /** `dialogue` is what the client asked, without what was put back into it. */
  store(
    tenantId: string,
    { turns }: Pick<Prompt, 'turns'>,
    clientCalls: readonly ClientCall[],
    note: SearchNote,
  ): void {
    const [first] = clientCalls;
    if (!first) return;
    const name = noteKey(tenantId, turns.reduce(nextUserDigest, ''), first);
    this.#remove(name);
    const length = name.length + JSON.stringify(note).length;
    this.#notes.set(name, { note, length });
    this.#length += length;
    for (const oldest of this.#notes.keys()) {
      if (this.#length <= this.#lengthMax) break;
      this.#remove(oldest);
    }
  }

  restore(tenantId: string, prompt: Prompt): Restored {
    if (this.#notes.size === 0) return { prompt, pages: [] };
    let pendingResults: readonly ToolResultPart[] = [];
    let last: SearchNote | undefined;
    let userDigest = '';
    const turns = prompt.turns.map((turn): Turn => {
      userDigest = nextUserDigest(userDigest, turn);
      if (turn.role === 'assistant') {
        const note = this.#find(tenantId, userDigest, turn.parts);
        pendingResults = note?.results ?? [];
        last = note ?? last;
        return note ? { ...turn, parts: [...turn.parts, ...toolCallParts(note)] } : turn;
      }
      if (turn.role !== 'user' || pendingResults.length === 0) return turn;
      const parts = [...pendingResults, ...turn.parts];
      pendingResults = [];
      return { ...turn, parts };
    });
    return last ? { prompt: { ...prompt, turns }, pages: last.pages } : { prompt, pages: [] };
  }

  #find(
    tenantId: string,
    userDigest: string,
    parts: readonly AssistantPart[],
  ): SearchNote | undefined {
    const call = parts.find((part) => part.kind === 'tool_call');
    return call && this.#notes.get(noteKey(tenantId, userDigest, call))?.note;
  }

  #remove(name: string): void {
    this.#length -= this.#notes.get(name)?.length ?? 0;
    this.#notes.delete(name);
  }
}

/** A text this short cannot nest deep enough to hurt. */
const parsedLengthMax = 4_096;

/**
 * Some models number their calls anew in each conversation, and a tool without parameters is called
 * alike in all of them: a note belongs to what the user asked, too.
 */
function noteKey(tenantId: string, userDigest: string, { id, name, arguments: json }: ClientCall) {
  // Clients that parse the arguments write them as JSON anew, spaced in another way.
  const isLong = json.length > parsedLengthMax;
  return JSON.stringify([tenantId, userDigest, id, name, isLong ? json : parseJson(json || '{}')]);
}

/** A digest of the user's words in a turn; a turn of results alone keeps the digest from before. */
function nextUserDigest(before: string, { role, parts }: Turn): string {
  const texts = role === 'user' ? parts.filter((part) => part.kind === 'text') : [];
  if (texts.length === 0) return before;
  const joined = texts.map(({ text }) => text).join('\n');
  return new Bun.CryptoHasher('sha256').update(joined).digest('base64url');
}

function toolCallParts({ calls, toolName }: SearchNote): AssistantPart[] {
  return calls.map(({ id, arguments: json }) => ({
    kind: 'tool_call',
    id,
    name: toolName,
    arguments: json === '' ? '{}' : json,
  }));
}
