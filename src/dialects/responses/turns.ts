/** The input of a Responses client as turns. */
import type {
  AssistantPart,
  Cacheable,
  DocumentPart,
  ImagePart,
  TextPart,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../core/dialogue.ts';
import { cacheMark } from '../ask/cache-marks.ts';
import { addressOfBytes } from '../ask/content/inline-content.ts';
import { type ForeignNames, wordsIn } from '../ask/foreign-names.ts';
import { freeFormArguments } from '../ask/tools/free-form.ts';
import {
  type AnyItem,
  type AnyPart,
  asSaid,
  type Item,
  type ItemOf,
  isKnownItem,
  isKnownPart,
  isMessage,
  isResult,
  isTextPart,
  type Part,
  type ResultItem,
  typeOf,
} from './input-items.ts';
import { readSignature } from './reasoning-signature.ts';
import type { ResponsesBody } from './request-schema.ts';
import { flatName } from './tool-forms.ts';
import { foundNames, isSearchCall, isSearchOutput, toolSearchName } from './tool-search.ts';

export function readTurns(
  { instructions, input }: Pick<ResponsesBody, 'instructions' | 'input'>,
  foreign: ForeignNames,
): readonly Turn[] {
  const turns = new TurnBuilder();
  if (instructions) turns.instruct([{ kind: 'text', text: instructions }]);
  if (typeof input === 'string') turns.say([{ kind: 'text', text: input }]);
  else for (const [at, item] of input.entries()) readItem(item, at, turns, foreign);
  const read = turns.end();
  if (typeof input !== 'string') {
    foreign.lose(input, ({ type }) => !compactions.has(type), 'input');
    if (read.every(({ role }) => role === 'system')) foreign.lose(input, isKnownItem, 'input');
  }
  return read;
}

/**
 * OpenAI's own summary of a long conversation, which no other provider can read, and the wish for
 * one. Without the summary all that was said would be lost, and without the wish the client would
 * get an answer in its place; so other upstreams do not get such a request.
 */
const compactions: ReadonlySet<unknown> = new Set([
  'compaction',
  'compaction_summary',
  'context_compaction',
  'compaction_trigger',
]);

/** Items of one side in a row become one turn; results come before the user's words. */
class TurnBuilder {
  readonly #turns: Turn[] = [];
  #answered: AssistantPart[] = [];
  #results: ToolResultPart[] = [];

  instruct(parts: readonly TextPart[]): void {
    this.#close();
    this.#turns.push({ role: 'system', parts });
  }

  say(parts: readonly UserPart[]): void {
    this.#endAnswer();
    this.#turns.push({ role: 'user', parts: [...this.#results, ...parts] });
    this.#results = [];
  }

  result(part: ToolResultPart): void {
    this.#endAnswer();
    this.#results.push(part);
  }

  answer(parts: readonly AssistantPart[]): void {
    this.#endResults();
    for (const part of parts) this.#answered.push(part);
  }

  /**
   * Another message of the assistant becomes a new turn, or its words would run into the last
   * message. After calls it stays in their turn: nothing may stand between calls and results.
   */
  answerAgain(parts: readonly AssistantPart[]): void {
    const before = this.#answered;
    const end = before.findLastIndex(({ kind }) => kind === 'text' || kind === 'refusal') + 1;
    if (end > 0 && !before.some(({ kind }) => kind === 'tool_call')) {
      const thoughts = before.splice(end);
      this.#endAnswer();
      this.#answered = thoughts;
    }
    this.answer(parts);
  }

  end(): readonly Turn[] {
    this.#close();
    return this.#turns;
  }

  #close(): void {
    this.#endAnswer();
    this.#endResults();
  }

  #endAnswer(): void {
    if (this.#answered.length > 0) {
      this.#turns.push({ role: 'assistant', parts: this.#answered });
    }
    this.#answered = [];
  }

  #endResults(): void {
    if (this.#results.length > 0) this.#turns.push({ role: 'user', parts: this.#results });
    this.#results = [];
  }
}

function readItem(given: AnyItem, at: number, turns: TurnBuilder, foreign: ForeignNames): void {
  const item = asSaid(given);
  // These tools are read together with the request's other tools.
  if (item.type === 'additional_tools') return;
  if (isSearchCall.Check(item)) {
    const { call_id: id, arguments: given } = item;
    const json = typeof given === 'string' ? given : JSON.stringify(given ?? {});
    turns.answer([{ kind: 'tool_call', id, name: toolSearchName, arguments: json }]);
  } else if (isSearchOutput.Check(item)) {
    const parts = [{ kind: 'text', text: foundNames(item.tools) }] as const;
    turns.result({ kind: 'tool_result', callId: item.call_id, parts, isError: false });
  } else if (!isKnownItem(item)) foreign.add(`input.${typeOf(item)}`);
  else if (isMessage(item)) readMessage(item, at, turns, foreign);
  else if (isResult(item)) turns.result(readResult(item, foreign));
  else turns.answer([readThoughtOrCall(item)]);
}

function readMessage(
  item: ItemOf<'message'>,
  at: number,
  turns: TurnBuilder,
  foreign: ForeignNames,
): void {
  const { role, content } = item;
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  if (role === 'user') {
    const said = parts.flatMap((part) => readSaid(part, foreign));
    if (said.length === 0) foreign.lose(parts, isTextPart, `input[${at}].content`);
    turns.say(said);
  } else if (role === 'assistant')
    turns.answerAgain(parts.flatMap((part) => readAnswer(part, foreign)));
  else turns.instruct(parts.flatMap((part) => marked(readTextOnly(part, foreign), part)));
}

/** The parts with the client's cache mark, if it set one. */
function marked<Read extends Cacheable>(read: readonly Read[], part: AnyPart): readonly Read[] {
  return read.map((one) => ({ ...one, ...cacheMark(part) }));
}

type ThoughtOrCall = Exclude<Item, ItemOf<'message'> | ResultItem>;

function readThoughtOrCall(item: ThoughtOrCall): AssistantPart {
  switch (item.type) {
    case 'reasoning': {
      const texts = item.summary?.length ? item.summary : (item.content ?? []);
      const text = texts.map((part) => part.text).join('\n\n');
      return { kind: 'reasoning', text, ...readSignature(item) };
    }
    case 'function_call':
      return readCall(item, item.arguments);
    case 'custom_tool_call':
      return readCall(item, freeFormArguments(item.input));
  }
}

function readCall(
  item: ItemOf<'function_call'> | ItemOf<'custom_tool_call'>,
  json: string,
): AssistantPart {
  const name = flatName(item.name, item.namespace);
  return { kind: 'tool_call', id: item.call_id, name, arguments: json };
}

function readResult(item: ResultItem, foreign: ForeignNames): ToolResultPart {
  const { call_id: callId, output } = item;
  const parts: ToolResultPart['parts'] =
    typeof output === 'string'
      ? [{ kind: 'text', text: output }]
      : output.flatMap((part) => readShown(part, foreign));
  const holders = typeof output === 'string' ? [] : output;
  const mark = holders.map(cacheMark).find(({ cacheControl }) => cacheControl);
  return { kind: 'tool_result', callId, parts, isError: false, ...mark };
}

function readSaid(part: AnyPart, foreign: ForeignNames): readonly UserPart[] {
  if (isKnownPart(part) && part.type === 'input_audio') {
    const { data, format } = part.input_audio;
    return [{ kind: 'audio', data, format }];
  }
  return marked(readShown(part, foreign), part);
}

function readShown(
  part: AnyPart,
  foreign: ForeignNames,
): readonly (TextPart | ImagePart | DocumentPart)[] {
  if (!isKnownPart(part)) {
    foreign.add(`input.${part.type}`);
    return wordsIn(part);
  }
  switch (part.type) {
    case 'input_image': {
      const { image_url: url, detail } = part;
      if (!url) return leftOut('input_image.file_id', foreign);
      return [{ kind: 'image', url, detail: detail || undefined }];
    }
    case 'input_file':
      return readFile(part);
    default:
      return readTextOnly(part, foreign);
  }
}

function readFile(part: Extract<Part, { type: 'input_file' }>): readonly DocumentPart[] {
  const { file_data: data, file_url: url, file_id: fileId, filename } = part;
  const address = data ? addressOfBytes(data) : url;
  const source = address ? { url: address } : { fileId: fileId ?? '' };
  return [{ kind: 'document', source, name: filename || undefined }];
}

function readAnswer(part: AnyPart, foreign: ForeignNames): readonly AssistantPart[] {
  if (isKnownPart(part) && part.type === 'refusal') {
    return [{ kind: 'refusal', text: part.refusal }];
  }
  return readTextOnly(part, foreign);
}

function readTextOnly(part: AnyPart, foreign: ForeignNames): readonly TextPart[] {
  if (!isTextPart(part)) return leftOut(part.type, foreign);
  return part.text === '' ? [] : [{ kind: 'text', text: part.text }];
}

/** Leaves an item or part out, and notes its type to tell the client. */
function leftOut(type: string, foreign: ForeignNames): readonly [] {
  foreign.add(`input.${type}`);
  return [];
}
