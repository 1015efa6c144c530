import type { Errand, Sameness } from '../call.ts';
import type { ChatAsk } from '../core/ask.ts';
import { nameLengthMax } from '../core/bounds.ts';
import { invalidRequest } from '../core/errors.ts';
import type { Recording } from '../core/recording.ts';
import type { Measured } from '../core/usage.ts';
import { wordBytes } from '../core/word-bytes.ts';
import type {
  ClientWords,
  Conversation,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  StreamRelay,
} from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
import { retell } from '../dialects/translation.ts';
import { canChat } from '../dialects/upstreams.ts';
import { ChatBounds, imageUnits } from '../meter/bound.ts';
import { estimateNote, estimateUsage, unfinishedNote } from '../meter/estimate.ts';
import { chatMisfit, keepFitting } from '../route/capability.ts';
import type { Offer } from '../route/catalogue.ts';
import type { AttemptResult } from '../upstream/attempt.ts';
import type { Link } from '../upstream/link.ts';
import type { StreamEnd } from '../upstream/stream-answer.ts';
import { tryOffer } from '../upstream/try-offer.ts';

/** A conversation as an errand: chat, in whatever dialect its client speaks. */
export class ChatErrand implements Errand {
  readonly ask: ChatAsk;
  readonly bounds: ChatBounds;
  readonly words: ClientWords;
  readonly skills: readonly string[];
  readonly #conversation: Conversation;

  constructor(conversation: Conversation) {
    this.ask = conversation.ask;
    this.bounds = new ChatBounds(conversation.ask);
    this.words = conversation.words;
    const { skills } = conversation.ask;
    this.skills = skills.length > 1 ? [...new Set(skills)] : skills;
    this.#conversation = conversation;
  }

  misfit({ model, dialect }: Offer): string | null {
    const why = chatMisfit(model, this.ask);
    return why ?? (canChat(dialect) ? null : 'cannot chat with this client');
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    return this.#keepHearing(keepFitting(plan, this.ask));
  }

  /**
   * Leaves out offers that would be sent an empty message; where that is all of them, refuses the
   * request and names the part that they cannot be shown.
   */
  #keepHearing(plan: readonly Offer[]): readonly Offer[] {
    const unheardAt = ({ dialect }: Offer) => this.#conversation.unheardAt(dialect);
    const hearing = plan.filter((offer) => unheardAt(offer) === undefined);
    const lost = hearing.length === 0 && plan[0] ? unheardAt(plan[0]) : undefined;
    if (!lost) return hearing;
    const type = lost.type.slice(0, nameLengthMax).toWellFormed();
    const reason = `has nothing that this model can be shown: its type is "${type}"`;
    throw invalidRequest(`${lost.param} ${reason}.`, lost.param);
  }

  tryAt(offer: Offer, link: Link): Promise<AttemptResult> {
    return tryOffer(this.#conversation, offer, link);
  }

  measure(facts: ReplyFacts, how: StreamEnd['how']): Measured {
    const units = imageUnits(this.ask);
    const { usage, isEstimate = false, outputCharacters, finishReason } = facts;
    const isWhole = how === 'complete' || (how === 'left' && finishReason !== undefined);
    if (usage && !isEstimate && (isWhole || usage.outputTokens > 0)) {
      return { usage, units, isEstimate, note: null };
    }
    const estimate = estimateUsage(wordBytes(this.#conversation.dialogue()), outputCharacters);
    if (!usage) return { usage: estimate, units, isEstimate: true, note: estimateNote };
    // Some providers count the prompt first and the output last: of a cut answer, only the prompt.
    const outputTokens = usage.outputTokens || estimate.outputTokens;
    const reported = { ...usage, outputTokens: 0, reasoningTokens: 0 };
    const guessed = { isEstimate: true, reported, note: unfinishedNote };
    return { usage: { ...usage, outputTokens }, units, ...guessed };
  }

  sameness(): Sameness {
    const conversation = this.#conversation;
    const isRepeatable = conversation.temperature === 0;
    const form = conversation.isFormBound ? conversation.ask.stream : null;
    return { wording: () => [conversation.wording(), form], isRepeatable };
  }

  replay(recording: Recording, identity: ReplyIdentity): ReplyRelay | undefined {
    const { dialect, text } = recording;
    if (!canChat(dialect)) return undefined;
    const isStream = recording.form === 'stream';
    const conversation = this.#conversation;
    if (isStream !== this.ask.stream) return retell(recording, dialect, identity, conversation);
    const crossing = conversation.crossTo(dialect);
    if (!crossing) return undefined;
    if (isStream) return streamAgain(crossing.relayStream(identity), text);
    const reply = crossing.relayReply(text, identity);
    return 'kind' in reply ? undefined : reply;
  }
}

/** A recorded stream of an upstream, in the words of the client that gets it now. */
function streamAgain(relay: StreamRelay, text: string): ReplyRelay {
  const reader = new EventStreamReader();
  let said = '';
  for (const message of [...reader.push(text), ...reader.end()]) said += relay.push(message);
  return { facts: relay.facts, write: (closing) => said + relay.close(closing) };
}
