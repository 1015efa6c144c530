/**
 * The way between two different dialects: an upstream's reader tells the answer in our words, a
 * client's writer listens, and a tally in between keeps what the meter and the log need.
 */
import type { AnswerListener, Citation, FinishReason } from '../core/answer.ts';
import { droppedNamesMax } from '../core/bounds.ts';
import type { Dialogue } from '../core/dialogue.ts';
import type { GatewayError } from '../core/errors.ts';
import { pictureCharacters, type Usage } from '../core/usage.ts';
import { NotedFacts } from './answer/facts.ts';
import { isForced } from './anthropic/thinking.ts';
import { refuseManyArguments } from './ask/argument-names.ts';
import type {
  ClientDialect,
  Crossing,
  ReplyClosing,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  SseMessage,
  StreamReader,
  StreamRelay,
  StreamWriter,
  UpstreamDialect,
  UpstreamFailure,
} from './dialect.ts';
import { EventStreamReader } from './event-stream.ts';
import { ToolNames } from './tool-names.ts';

/** In the words of the log, which are OpenAI's. */
export const finishWords: Readonly<Record<FinishReason, string>> = {
  stop: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  context: 'length',
  tool_calls: 'tool_calls',
  content_filter: 'content_filter',
  pause: 'stop',
};

/** Passes everything on and remembers what it came to. */
export class Tally implements AnswerListener {
  readonly facts: NotedFacts;
  /** Whether there is anything to hear. */
  started = false;
  readonly #to: AnswerListener;
  readonly #names: ToolNames | undefined;
  /** That of the first choice, which keeps what all of them come to. */
  readonly #first: Tally;

  constructor(to: AnswerListener, names?: ToolNames, first?: Tally) {
    this.#to = to;
    this.#names = names;
    this.#first = first ?? this;
    this.facts = first?.facts ?? new NotedFacts();
  }

  choice(number: number): AnswerListener | undefined {
    const to = this.#to.choice?.(number);
    return to && new Tally(to, this.#names, this.#first);
  }

  text(text: string): void {
    this.#count(text.length);
    this.#to.text(text);
  }

  reasoning(text: string): void {
    this.#count(text.length);
    this.#to.reasoning(text);
  }

  reasoningSignature(signature: string): void {
    this.#first.started = true;
    this.#to.reasoningSignature(signature);
  }

  redactedReasoning(data: string): void {
    this.#count(data.length);
    this.#to.redactedReasoning(data);
  }

  toolCall(call: number, id: string, name: string): void {
    this.#count(name.length);
    this.#to.toolCall(call, id, this.#names?.restore(name) ?? name);
  }

  toolArguments(call: number, json: string): void {
    this.#count(json.length);
    this.#to.toolArguments(call, json);
  }

  refusal(text: string): void {
    this.#count(text.length);
    this.#to.refusal(text);
  }

  citation(citation: Citation): void {
    this.#to.citation(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#count(pictureCharacters);
    this.#to.image(mediaType, base64);
  }

  finish(reason: FinishReason, stopSequence: string | null, word?: string): void {
    this.#first.started = true;
    if (this.#first === this) this.facts.finishReason = word ?? finishWords[reason];
    this.#to.finish(reason, stopSequence, word);
  }

  usage(usage: Usage, isEstimate = false): void {
    this.facts.usage = usage;
    this.facts.isEstimate = isEstimate;
    this.#to.usage?.(usage, isEstimate);
  }

  #count(characters: number): void {
    this.#first.started = true;
    this.facts.outputCharacters += characters;
  }
}

class TranslatedStream implements StreamRelay {
  readonly #writer: StreamWriter;
  readonly #tally: Tally;
  readonly #reader: StreamReader;
  #ended = false;

  constructor(writer: StreamWriter, tally: Tally, reader: StreamReader) {
    this.#writer = writer;
    this.#tally = tally;
    this.#reader = reader;
  }

  get facts(): ReplyFacts {
    return this.#tally.facts;
  }

  get started(): boolean {
    return this.#tally.started;
  }

  get finished(): boolean {
    return this.#reader.finished;
  }

  get ended(): boolean {
    return this.#reader.ended ?? false;
  }

  push(message: SseMessage): string {
    if (this.#ended) return '';
    const failure = this.#reader.push(message);
    if (failure !== undefined) {
      this.#ended = true;
      this.#tally.facts.failure = failure;
    }
    return this.#writer.take();
  }

  close(closing: ReplyClosing): string {
    this.#ended = true;
    return this.#writer.close(closing);
  }

  fail(error: GatewayError): string {
    this.#ended = true;
    return this.#writer.fail(error);
  }

  keepAlive(): string {
    return this.#writer.keepAlive();
  }
}

/** Of an upstream that said everything at once. */
const silent: StreamReader = { push: () => undefined, finished: true, ended: true };

/** Clients choose the names of their unknown fields; only harmless ones may stand in a header. */
const isPlainName = /^[\w.[\]-]{1,64}$/;

interface Translation extends Crossing {
  /** The text of a whole stream where a reply was asked for; the failure in it, if there is one. */
  joinStream(text: string, identity: ReplyIdentity): ReplyRelay | UpstreamFailure;
}

/** From a client that wrote `dialogue` to an upstream, and back. */
export function translate(
  dialogue: Dialogue,
  client: ClientDialect,
  upstream: UpstreamDialect,
): Translation {
  const names = new ToolNames(dialogue, upstream.toolNameLengthMax);
  // No tool can be forced where there are none: the client is told so, the upstream nothing.
  const isVain = dialogue.tools.length === 0 && isForced(dialogue.toolChoice);
  const said = isVain ? { ...dialogue, toolChoice: null } : dialogue;
  return {
    write(target) {
      refuseManyArguments(dialogue);
      const request = upstream.write(names.shortenIn(said), target);
      const unsaid = [...(request.dropped ?? []), ...(isVain ? ['tool_choice'] : [])];
      // Names that people know first: clients can send any number of others.
      const dropped = new Set([...unsaid, ...dialogue.foreign]);
      const named = [...dropped].filter((name) => isPlainName.test(name));
      return { ...request, dropped: named.slice(0, droppedNamesMax) };
    },
    openStream(identity) {
      const writer = client.openStream(identity);
      const tally = new Tally(writer, names);
      return new TranslatedStream(writer, tally, upstream.openStream(tally));
    },
    readReply(text, identity) {
      const writer = client.openReply(identity);
      const tally = new Tally(writer, names);
      const failure = upstream.readReply(text, tally);
      if (failure !== undefined) return failure;
      return { facts: tally.facts, write: (closing) => writer.write(closing) };
    },
    streamReply(text, identity) {
      const writer = client.openStream(identity);
      const tally = new Tally(writer, names);
      const failure = upstream.readReply(text, tally);
      if (failure !== undefined) return failure;
      return { relay: new TranslatedStream(writer, tally, silent), opening: writer.take() };
    },
    joinStream(text, identity) {
      const writer = client.openReply(identity);
      const tally = new Tally(writer, names);
      const reader = upstream.openStream(tally);
      const events = new EventStreamReader();
      for (const message of [...events.push(text), ...events.end()]) {
        const failure = reader.push(message);
        if (failure !== undefined) return failure;
      }
      return { facts: tally.facts, write: (closing) => writer.write(closing) };
    },
  };
}
