import type { DialectName } from '../config/provider-schema.ts';
import type { ChatAsk } from '../core/ask.ts';
import type { Dialogue, UnheardPart } from '../core/dialogue.ts';
import { longNumbersIn } from './answer/exact-json.ts';
import type { Source } from './ask/body/edit-body.ts';
import { exactWords } from './ask/body/exact-body.ts';
import type {
  ClientDialect,
  ClientWords,
  Conversation,
  Crossing,
  ReplyIdentity,
  ReplyRelay,
  StreamedReply,
  StreamRelay,
  Target,
  UpstreamDialect,
  UpstreamFailure,
  UpstreamRequest,
} from './dialect.ts';
import { Translation } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

interface ClientRequest {
  readonly ask: ChatAsk;
  readonly body: { readonly temperature?: number | null };
  readonly source: Source | null;
}

/**
 * Routing fields say where a request goes, not what it asks; the cache key has the chain of models
 * and the preferences instead, alike for all spellings. As undefined, they are not written.
 */
const wayUntold = { model: undefined, models: undefined, provider: undefined, route: undefined };

/**
 * What all client dialects have in common. An upstream that speaks the client's dialect gets the
 * client's own text, passed through by the subclass; any other upstream gets a translation.
 */
export abstract class ClientConversation<Given extends ClientRequest>
  implements Conversation, Crossing
{
  readonly ask: ChatAsk;
  readonly temperature: number | null;
  protected readonly request: Given;
  #dialogue: Dialogue | undefined;

  constructor(request: Given) {
    this.ask = request.ask;
    this.temperature = request.body.temperature ?? null;
    this.request = request;
  }

  abstract readonly words: ClientWords;
  abstract readonly client: ClientDialect;
  /** The upstream dialect that is the client's own. */
  protected abstract readonly own: UpstreamDialect;
  protected abstract readDialogue(): Dialogue;
  abstract instruct(text: string): Conversation;
  abstract wording(): unknown;
  abstract write(target: Target): UpstreamRequest;
  abstract relayStream(identity: ReplyIdentity): StreamRelay;
  abstract relayReply(text: string, identity: ReplyIdentity): ReplyRelay | UpstreamFailure;

  get isFormBound(): boolean {
    return false;
  }

  /** The request with instructions of the gateway: longer, and no longer the client's text. */
  protected instructed(
    text: string,
    write: (body: Given['body'], text: string) => Given['body'],
  ): Given {
    const { request } = this;
    const inputBytes = request.ask.inputBytes + Buffer.byteLength(text);
    const ask = { ...request.ask, inputBytes };
    const body = exactWords(request.body, request.source);
    return { ...request, ask, body: write(body, text), source: null };
  }

  /**
   * Everything that decides the answer to a request in this dialect: the fields `asked`, `more`
   * that is not among them, and the numbers that JavaScript would round.
   */
  protected wordingOf(dialect: string, asked: object, more?: unknown): unknown {
    const { source } = this.request;
    return [dialect, { ...asked, ...wayUntold }, more, source ? longNumbersIn(source.text) : []];
  }

  crossTo(dialect: DialectName): Crossing | undefined {
    const upstream = upstreamDialect(dialect);
    if (upstream === this.own) return this;
    return upstream && new Translation(this.dialogue(), this.client, upstream);
  }

  unheardAt(dialect: DialectName): UnheardPart | undefined {
    return upstreamDialect(dialect) === this.own ? undefined : this.dialogue().unheard;
  }

  dialogue(): Dialogue {
    this.#dialogue ??= this.readDialogue();
    return this.#dialogue;
  }

  streamReply(text: string, identity: ReplyIdentity): StreamedReply | UpstreamFailure | undefined {
    if (this.isFormBound) return undefined;
    return new Translation(this.dialogue(), this.client, this.own).streamReply(text, identity);
  }
}
