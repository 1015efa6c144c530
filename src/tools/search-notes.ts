import { searchNotesLengthMax } from '../core/bounds.ts';
import { parseJson } from '../core/json.ts';
import type { AssistantPart, Prompt, ToolResultPart, Turn } from '../core/prompt.ts';
import type { FoundPage } from './citations.ts';

/** Searches of a turn that also called the client's tools. The client sees only its own calls. */
export interface SearchNote {
  /** The name of the search tool in that prompt. */
  readonly toolName: string;
  readonly calls: readonly { readonly id: string; readonly arguments: string }[];
  readonly results: readonly ToolResultPart[];
  /** All pages found so far, including earlier turns, in the order of their numbers. */
  readonly pages: readonly FoundPage[];
}

/** A call to one of the client's tools. */
export interface ClientCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

interface Restored {
  readonly prompt: Prompt;
  /** The pages that numbers in the prompt refer to, beginning with 1. */
  readonly pages: readonly FoundPage[];
}

interface StoredNote {
  readonly note: SearchNote;
  readonly length: number;
}

/**
 * Stores searches made in turns that also called the client's tools, and restores them in the
 * prompt when the client sends its results. The notes are kept in memory up to a limit. If a note
 * is lost, the model only has to search again.
 */
export class SearchNotes {
  readonly #lengthMax: number;
  /** Oldest first. */
  readonly #notes = new Map<string, StoredNote>();
  #length = 0;

  constructor(lengthMax = searchNotesLengthMax) {
    this.#lengthMax = lengthMax;
  }

  /** Stores a note for a client's prompt. `turns` must not contain restored searches. */
  store(
    tenantId: string,
    { turns }: Pick<Prompt, 'turns'>,
    clientCalls: readonly ClientCall[],
    note: SearchNote,
  ): void {
    const [first] = clientCalls;
    if (!first) return;
    const key = noteKey(tenantId, turns.reduce(nextUserDigest, ''), first);
    this.#remove(key);
    const length = key.length + JSON.stringify(note).length;
    this.#notes.set(key, { note, length });
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

  #remove(key: string): void {
    this.#length -= this.#notes.get(key)?.length ?? 0;
    this.#notes.delete(key);
  }
}

/** Longer arguments aren't parsed, because their JSON could be nested too deeply. */
const parsedLengthMax = 4_096;

/**
 * Returns the key of a note. It includes the user's text, because some models use the same call IDs
 * in every chat, and calls without arguments are all alike.
 */
function noteKey(tenantId: string, userDigest: string, { id, name, arguments: json }: ClientCall) {
  // Parse the arguments, because clients may write the same JSON with different whitespace.
  const isLong = json.length > parsedLengthMax;
  return JSON.stringify([tenantId, userDigest, id, name, isLong ? json : parseJson(json || '{}')]);
}

/** Returns a digest of the last user text. A turn that has only tool results does not change it. */
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
