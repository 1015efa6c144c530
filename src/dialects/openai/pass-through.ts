/**
 * An OpenAI-style stream on its way to an OpenAI client. Nearly every chunk passes as the text it
 * came in, with only its head exchanged: unknown fields and long numbers survive, and it is cheap.
 */
import type { GatewayError } from '../../core/errors.ts';
import { type Fields, fieldsOf, isObject, objectsIn } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import { NotedFacts } from '../answer/facts.ts';
import type {
  ReplyClosing,
  ReplyIdentity,
  SseMessage,
  StreamRelay,
  UpstreamFailure,
} from '../dialect.ts';
import { keepAlive } from '../event-stream.ts';
import { failureInside, readErrorObject, unreadableEvent } from '../failure.ts';
import { isChoiceIndex } from './choice.ts';
import { ChunkMender, isNothing, isTerminator } from './chunk.ts';
import type { OpenAiClientOptions } from './client.ts';
import { lastWords, openAiWords } from './client-stream.ts';
import { CustomCalls } from './custom-calls.ts';
import { type Apart, finishApart } from './finish-apart.ts';
import { charactersIn, hideReasoning } from './message.ts';
import { RepeatedChunk } from './repeated-chunk.ts';
import { isPromptAlone, mergeUsage, outputDetailsIn, usageIn } from './usage.ts';

/** True if there was any reasoning. */
function hideReasoningIn(choices: readonly Fields[]): boolean {
  let isHidden = false;
  for (const { delta } of choices) if (isObject(delta) && hideReasoning(delta)) isHidden = true;
  return isHidden;
}

/** The words of a choice that has plain words and nothing else; otherwise undefined. */
function onlyWordsIn({ delta, finish_reason: reason }: Fields = {}) {
  if (typeof reason === 'string' || !isObject(delta)) return undefined;
  const { content, tool_calls: calls } = delta;
  if (typeof content !== 'string' || (calls !== undefined && calls !== null)) return undefined;
  return charactersIn(delta) === content.length ? content : undefined;
}

/** Cannot stand inside a JSON string: its quotes would be escaped there. */
const noUsageYet = ',"usage":null';

export class OpenAiPassThrough implements StreamRelay {
  readonly facts = new NotedFacts();
  started = false;
  /** Nothing more is forwarded: terminator, failure or last words. */
  ended = false;
  readonly #identity: ReplyIdentity;
  readonly #includeUsage: boolean;
  readonly #hidesReasoning: boolean;
  readonly #customCalls: CustomCalls | undefined;
  readonly #mender: ChunkMender;
  readonly #repeated = new RepeatedChunk();
  readonly #choices = {
    open: new Set<number>(),
    finished: new Set<number>(),
    /** Finish reasons that came beside words: told once it is certain that no more words follow. */
    untold: new Map<number, Fields>(),
  };
  /** The terminator came. */
  #isOver = false;
  #outputDetails: Fields | undefined;
  /** The text before `"choices"` that this upstream repeats in every chunk, and our text for it. */
  #upstreamHead = '';
  #ownHead = '';

  constructor(
    identity: ReplyIdentity,
    {
      includeUsage,
      hidesReasoning = false,
      knowsFunctions = false,
      customTools,
      toolNames,
    }: OpenAiClientOptions,
  ) {
    this.#mender = new ChunkMender(toolNames, !knowsFunctions);
    this.#identity = identity;
    this.#includeUsage = includeUsage;
    this.#hidesReasoning = hidesReasoning;
    this.#customCalls = customTools && new CustomCalls(customTools);
  }

  get finished(): boolean {
    const { finished, open } = this.#choices;
    return finished.size > 0 && open.size === 0 && (this.#isOver || !this.#mender.goesOn);
  }

  push({ event, data }: SseMessage): string {
    if (this.ended) return this.#takeLateUsage(data);
    const words = event === null ? this.#repeated.wordsOf(data) : undefined;
    if (words !== undefined) {
      this.facts.outputCharacters += words.length;
      if (this.#choices.open.size === 0) this.#mender.goesOn = true;
      return this.#repeated.say(words);
    }
    if (isTerminator(data)) {
      this.ended = true;
      this.#isOver = true;
      return this.#tellEnds();
    }
    const chunk = parseExact(data);
    if (!isObject(chunk)) return this.#takeGarbage(event, data);
    const isCounted = this.#takeUsage(chunk);
    const failure = event === 'error' ? readErrorObject(chunk) : failureInside(chunk);
    if (failure !== undefined) return this.#break(failure);
    const choices = objectsIn(chunk.choices);
    if (choices.length === 0) return this.#passAside(chunk);
    const given = this.#plainWordsIn(choices);
    let isMended = this.#mender.mend(chunk, choices);
    for (const choice of choices) if (this.#takeWords(choice)) isMended = true;
    if (isCounted) this.facts.coverWords();
    const apart = finishApart(choices, this.#choices, this.#mender);
    for (const choice of choices) this.#takeChoice(choice);
    this.started = true;
    // Counted before it is hidden: what the client does not want to see is paid for all the same.
    const isHidden = this.#hidesReasoning && hideReasoningIn(choices);
    if (apart) return this.#rewriteApart(chunk, apart);
    // Usage that is all zeros, a placeholder, is kept from clients like any other until the end.
    const hasUsage = isCounted || (chunk.usage ?? null) !== null;
    if (isHidden || hasUsage) return this.#rewrite(chunk);
    const said = isMended ? this.#rewrite(chunk) : this.#forward(data, chunk);
    if (given !== undefined && given === onlyWordsIn(choices[0])) {
      this.#repeated.learn(data, said, given);
    }
    return said;
  }

  close(closing: ReplyClosing): string {
    this.ended = true;
    const told = this.#includeUsage ? closing : null;
    return this.#tellEnds() + lastWords(this.#identity, told, this.#outputDetails);
  }

  fail(error: GatewayError): string {
    this.ended = true;
    return openAiWords.fail(error, this.#identity);
  }

  keepAlive(): string {
    return keepAlive;
  }

  #break(failure: UpstreamFailure): string {
    this.ended = true;
    this.facts.failure = failure;
    return '';
  }

  #takeGarbage(event: string | null, data: string): string {
    if (event === 'error') return this.#break(readErrorObject(data));
    if (isNothing(data)) return '';
    // A connection cut after the finish reason loses at most the usage: the answer is whole.
    return this.finished ? '' : this.#break(unreadableEvent(data));
  }

  /**
   * Chunks without choices, as Azure's first or the usage, are not for clients; moderations are.
   */
  #passAside(chunk: Fields): string {
    if (!isObject(chunk.moderation)) return '';
    this.#mender.mend(chunk, []);
    return this.#rewrite(chunk);
  }

  /** Some servers send the usage after their terminator; nothing else is read there. */
  #takeLateUsage(data: string): string {
    const { usage, failure } = this.facts;
    const chunk = usage === undefined && failure === undefined ? parseExact(data) : undefined;
    if (isObject(chunk)) this.#takeUsage(chunk);
    return '';
  }

  #takeUsage(chunk: Fields): boolean {
    const usage = usageIn(chunk, this.facts.usage);
    if (usage !== undefined) {
      const merged = mergeUsage(this.facts.usage, usage);
      this.facts.usage = merged;
      this.facts.isEstimate = isPromptAlone(chunk, merged);
      this.#outputDetails = outputDetailsIn(chunk) ?? this.#outputDetails;
    }
    return usage !== undefined;
  }

  /**
   * Counts words as the upstream sends them. True where calls are told in another form than it
   * sent.
   */
  #takeWords({ index, delta, finish_reason: reason }: Fields): boolean {
    const words = fieldsOf(delta);
    const characters = charactersIn(words);
    this.facts.outputCharacters += characters;
    if (!this.#customCalls) return false;
    const calls = objectsIn(words.tool_calls);
    const mayEnd = typeof reason === 'string';
    // A reason beside a piece of a call need not be the end: then the call goes on waiting.
    const told = this.#customCalls.tell(calls, mayEnd && characters + calls.length === 0, index);
    const [first] = calls;
    if (told.length > 0) words.tool_calls = told;
    else if (first !== undefined) {
      // An empty piece, because an end beside words is held back until nothing follows.
      words.tool_calls = mayEnd ? [{ index: first.index, custom: { input: '' } }] : undefined;
    }
    return calls.length + told.length > 0;
  }

  /**
   * Now nothing more can follow: tells what calls still lack, even where the end of their choice
   * was told before, and then the ends that were held back.
   */
  #tellEnds(): string {
    let ends = '';
    for (const index of this.#choices.finished) ends += this.#tellEnd(index);
    this.#choices.untold.clear();
    return ends;
  }

  #tellEnd(index: number): string {
    const untold = this.#choices.untold.get(index);
    const [choice = { index }] = objectsIn(untold?.choices);
    const lacking = this.#mender.complete(index, choice.finish_reason);
    const calls = this.#customCalls?.tell(lacking, true, index) ?? lacking;
    const end = untold ? this.#rewrite(untold) : '';
    if (calls.length === 0) return end;
    const said = { ...choice, delta: { tool_calls: calls }, finish_reason: null };
    return this.#rewrite({ object: 'chat.completion.chunk', ...untold, choices: [said] }) + end;
  }

  #takeChoice({ index, finish_reason: reason }: Fields): void {
    if (!isChoiceIndex(index)) return;
    if (typeof reason === 'string') {
      this.#choices.open.delete(index);
      this.#choices.finished.add(index);
      if (index === 0) this.facts.finishReason = reason;
    } else if (!this.#choices.finished.has(index)) {
      this.#choices.open.add(index);
    }
    this.facts.isOpen = this.#choices.open.size > 0;
  }

  /**
   * The words of a chunk with one choice, which has begun before: a first chunk also says who
   * speaks, so it cannot stand for those that follow.
   */
  #plainWordsIn(choices: readonly Fields[]): string | undefined {
    const [choice] = choices;
    if (choices.length !== 1 || !isChoiceIndex(choice?.index)) return undefined;
    return this.#choices.open.has(choice.index) ? onlyWordsIn(choice) : undefined;
  }

  #forward(data: string, chunk: Fields): string {
    const isKnown = this.#upstreamHead !== '' && data.startsWith(this.#upstreamHead);
    // Data of several lines would need several `data:` lines; the event reader leaves only `\n`.
    if ((!isKnown && !this.#learnHead(data, chunk)) || data.includes('\n')) {
      return this.#rewrite(chunk);
    }
    const start = this.#upstreamHead.length;
    if (chunk.usage === undefined) return `data: ${this.#ownHead}${data.slice(start)}\n\n`;
    // Because we ask for usage, OpenAI writes `null` into every chunk; clients see it at the end.
    const at = data.lastIndexOf(noUsageYet);
    if (at < start) return this.#rewrite(chunk);
    const rest = data.slice(start, at) + data.slice(at + noUsageYet.length);
    return `data: ${this.#ownHead}${rest}\n\n`;
  }

  /**
   * Takes the text before `"choices"` as the head only if it parses as the beginning of the chunk,
   * with the same value in every field to be exchanged. Then none of them is repeated after
   * `"choices"`, and the key was not found inside a nested object or a string.
   */
  #learnHead(data: string, chunk: Fields): boolean {
    const key = '"choices"';
    const at = data.indexOf(key);
    const head = parseExact(`${data.slice(0, at)}${key}:0}`);
    if (at === -1 || !isObject(head)) return false;
    if (typeof head.id !== 'string' || typeof head.model !== 'string') return false;
    const mustMatch = ['id', 'model', 'created', 'object', 'provider'];
    if (mustMatch.some((field) => head[field] !== chunk[field])) return false;
    const own = JSON.stringify(this.#sign({ ...head, choices: undefined }));
    this.#upstreamHead = data.slice(0, at) + key;
    this.#ownHead = `${own.slice(0, -1)},${key}`;
    return true;
  }

  /** Puts our names where the upstream's are. */
  #sign(chunk: Fields): Fields {
    chunk.id = this.#identity.id;
    chunk.model = this.#identity.model;
    chunk.created = this.#identity.created;
    if (chunk.provider !== undefined) chunk.provider = this.#identity.provider;
    return chunk;
  }

  #rewriteApart(chunk: Fields, { said, closed, held }: Apart): string {
    for (const { index } of closed) if (isChoiceIndex(index)) this.#choices.untold.delete(index);
    for (const choice of held) {
      const { index } = choice;
      if (isChoiceIndex(index)) this.#choices.untold.set(index, { ...chunk, choices: [choice] });
    }
    const apart = [said, closed].filter((choices) => choices.length > 0);
    return apart.map((choices) => this.#rewrite({ ...chunk, choices })).join('');
  }

  #rewrite(chunk: Fields): string {
    chunk.usage = undefined;
    return `data: ${JSON.stringify(this.#sign(chunk))}\n\n`;
  }
}
