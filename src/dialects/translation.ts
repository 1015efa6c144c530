/**
 * The way between two different dialects: an upstream's reader tells the answer in our words, a
 * client's writer listens, and a tally in between keeps what the meter and the log need.
 */
import type { DialectName } from '../config/provider-schema.ts';
import type { Dialogue } from '../core/dialogue.ts';
import type { GatewayError } from '../core/errors.ts';
import type { Recording } from '../core/recording.ts';
import { Tally } from './answer/tally.ts';
import { withFetched } from './ask/content/fetched-images.ts';
import { refuseManyArguments } from './ask/tools/earlier-calls.ts';
import { inNewerSchemas } from './ask/tools/newer-schema.ts';
import { isForced } from './ask/tools/tool-choice.ts';
import { ToolNames } from './ask/tools/tool-names.ts';
import type {
  ClientDialect,
  Conversation,
  Crossing,
  ReplyClosing,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  ReplyWriter,
  SseMessage,
  StreamedReply,
  StreamReader,
  StreamRelay,
  StreamWriter,
  Target,
  UpstreamDialect,
  UpstreamFailure,
  UpstreamRequest,
} from './dialect.ts';
import { EventStreamReader } from './event-stream.ts';
import { UnusableAnswer } from './unusable-answer.ts';
import { upstreamDialect } from './upstreams.ts';

class TranslatedStream implements StreamRelay {
  readonly #writer: StreamWriter;
  readonly #tally: Tally;
  readonly #reader: StreamReader;
  /** After a failure or the last words, nothing more is passed on. */
  #isOver = false;

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
    return this.#reader.finished && !this.#writer.isHalf;
  }

  get ended(): boolean {
    return this.#reader.ended ?? false;
  }

  push(message: SseMessage): string {
    if (this.#isOver) return '';
    const failure = this.#reader.push(message);
    if (failure !== undefined) {
      this.#isOver = true;
      this.#tally.facts.failure = failure;
    }
    return this.#writer.take();
  }

  close(closing: ReplyClosing): string {
    this.#isOver = true;
    return this.#writer.close(closing);
  }

  fail(error: GatewayError): string {
    this.#isOver = true;
    return this.#writer.fail(error);
  }

  keepAlive(): string {
    return this.#writer.keepAlive();
  }
}

/** The reader in place of a stream's, for an upstream that sent its answer whole. */
const silent: StreamReader = { push: () => undefined, finished: true, ended: true };

/** From a client that wrote a dialogue to an upstream, and back. */
export class Translation implements Crossing {
  readonly #dialogue: Dialogue;
  readonly #client: ClientDialect;
  readonly #upstream: UpstreamDialect;
  readonly #names: ToolNames;

  constructor(dialogue: Dialogue, client: ClientDialect, upstream: UpstreamDialect) {
    this.#dialogue = dialogue;
    this.#client = client;
    this.#upstream = upstream;
    this.#names = new ToolNames(dialogue, upstream.toolNameLengthMax);
  }

  write(target: Target): UpstreamRequest {
    const dialogue = this.#dialogue;
    refuseManyArguments(dialogue);
    // A tool that is not there cannot be forced: the wish is left out, and the client is told so.
    const isVain = isForced(dialogue.toolChoice) && isLeftOut(dialogue);
    const said = isVain ? { ...dialogue, toolChoice: null } : dialogue;
    const shown = withFetched(said, target.images);
    const worded = inNewerSchemas(this.#names.shortenIn(shown));
    const request = this.#upstream.write(worded, target);
    const unsaid = [...(request.dropped ?? []), ...(isVain ? ['tool_choice'] : [])];
    // Well-known names first: the header has room for some, and clients may send any number.
    return { ...request, dropped: [...new Set([...unsaid, ...dialogue.foreign])] };
  }

  relayStream(identity: ReplyIdentity): StreamRelay {
    const writer = this.#client.writeStream(identity);
    const tally = new Tally(writer, this.#names);
    const reader = this.#upstream.readStream(tally, this.#names.offered);
    return new TranslatedStream(writer, tally, reader);
  }

  relayReply(text: string, identity: ReplyIdentity): ReplyRelay | UpstreamFailure {
    const writer = this.#client.writeReply(identity);
    const tally = new Tally(writer, this.#names);
    return this.#upstream.readReply(text, tally) ?? translatedReply(writer, tally);
  }

  streamReply(text: string, identity: ReplyIdentity): StreamedReply | UpstreamFailure {
    const writer = this.#client.writeStream(identity);
    const tally = new Tally(writer, this.#names);
    const failure = this.#upstream.readReply(text, tally);
    if (failure !== undefined) return failure;
    return { relay: new TranslatedStream(writer, tally, silent), opening: writer.take() };
  }

  /** Turns the text of a whole stream into a reply; answers the failure in the stream, if any. */
  joinStream(text: string, identity: ReplyIdentity): ReplyRelay | UpstreamFailure {
    const writer = this.#client.writeReply(identity);
    const tally = new Tally(writer, this.#names);
    const reader = this.#upstream.readStream(tally, this.#names.offered);
    const events = new EventStreamReader();
    for (const message of [...events.push(text), ...events.end()]) {
      const failure = reader.push(message);
      if (failure !== undefined) return failure;
    }
    return translatedReply(writer, tally);
  }
}

function translatedReply(writer: ReplyWriter, { facts }: Tally): ReplyRelay {
  return { facts, write: (closing) => writer.write(closing) };
}

/**
 * A recorded answer in the other form: a stream as a whole reply, or the reverse. Undefined when a
 * recording that was passed through has something that cannot be translated; then the upstream is
 * asked again.
 */
export function retell(
  recording: Recording,
  dialect: DialectName,
  identity: ReplyIdentity,
  conversation: Conversation,
): ReplyRelay | undefined {
  const upstream = upstreamDialect(dialect);
  if (!upstream) return undefined;
  try {
    const translation = new Translation(conversation.dialogue(), conversation.client, upstream);
    return retoldBy(translation, recording, identity);
  } catch (thrown) {
    if (thrown instanceof UnusableAnswer) return undefined;
    throw thrown;
  }
}

function retoldBy(
  translation: Translation,
  { form, text }: Recording,
  identity: ReplyIdentity,
): ReplyRelay | undefined {
  if (form === 'stream') {
    const joined = translation.joinStream(text, identity);
    return 'kind' in joined ? undefined : joined;
  }
  const streamed = translation.streamReply(text, identity);
  if ('kind' in streamed || !streamed.relay.finished) return undefined;
  const { relay, opening } = streamed;
  return { facts: relay.facts, write: (closing) => opening + relay.close(closing) };
}

/**
 * Whether there is no tool to force: none goes upstream, or only the client's dialect has the named
 * one.
 */
function isLeftOut({ tools, toolChoice, foreign }: Dialogue): boolean {
  if (tools.length === 0) return true;
  if (toolChoice === null || typeof toolChoice === 'string') return false;
  const isLost = foreign.some((name) => name.startsWith('tools['));
  return isLost && !tools.some(({ name }) => name === toolChoice.name);
}
