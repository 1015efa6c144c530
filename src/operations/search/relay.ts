import type { GatewayError } from '../../core/errors.ts';
import type { Usage } from '../../core/usage.ts';
import type {
  ReplyClosing,
  ReplyFacts,
  SseMessage,
  StreamRelay,
  StreamWriter,
  UpstreamFailure,
} from '../../dialects/dialect.ts';
import type { SearchRound } from './round.ts';
import type { SearchSession } from './session.ts';
import { passOn } from './told-answer.ts';

/** The round listens to the upstream; the client's writer, one for all rounds, does the writing. */
export function roundWriter(round: SearchRound, writer: StreamWriter): StreamWriter {
  return {
    ...passOn(round),
    take: () => writer.take(),
    close: (closing) => writer.close(closing),
    fail: (error) => writer.fail(error),
    keepAlive: () => writer.keepAlive(),
    // The writer hears the round's reason only at the end of all rounds.
    get isHalf() {
      const reason = round.finished?.reason ?? 'stop';
      return (reason === 'stop' || reason === 'tool_calls') && writer.isHalf === true;
    },
  };
}

/** The facts of all rounds as those of one answer. */
export class RoundsFacts implements ReplyFacts {
  readonly #session: SearchSession;
  #past = 0;
  #now: ReplyFacts | undefined;

  constructor(session: SearchSession) {
    this.#session = session;
  }

  begin(round: ReplyFacts): void {
    this.#past = this.outputCharacters;
    this.#now = round;
  }

  get usage(): Usage | undefined {
    return this.#session.usage;
  }

  get finishReason(): string | undefined {
    return this.#session.finishReason;
  }

  get outputCharacters(): number {
    return this.#past + (this.#now?.outputCharacters ?? 0);
  }

  get failure(): UpstreamFailure | undefined {
    return this.#now?.failure;
  }
}

/** One stream to the client over as many streams of the upstream as there are rounds. */
export class RoundsRelay implements StreamRelay {
  readonly facts: RoundsFacts;
  #now: StreamRelay;

  constructor(first: StreamRelay, session: SearchSession) {
    this.#now = first;
    this.facts = new RoundsFacts(session);
    this.facts.begin(first.facts);
  }

  begin(round: StreamRelay): void {
    this.#now = round;
    this.facts.begin(round.facts);
  }

  get started(): boolean {
    return this.#now.started;
  }

  get finished(): boolean {
    return this.#now.finished;
  }

  get ended(): boolean {
    return this.#now.ended;
  }

  push(message: SseMessage): string {
    return this.#now.push(message);
  }

  close(closing: ReplyClosing): string {
    return this.#now.close(closing);
  }

  fail(error: GatewayError): string {
    return this.#now.fail(error);
  }

  keepAlive(): string {
    return this.#now.keepAlive();
  }
}
