import type { CacheIdentity, Operation } from '../../call.ts';
import { nameLengthMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import { promptTextBytes, type Turn } from '../../core/prompt.ts';
import type { Recording } from '../../core/recording.ts';
import type { ChatRequestInfo } from '../../core/request-info.ts';
import type { Measured } from '../../core/usage.ts';
import type {
  Adapter,
  AnswerMetrics,
  ClientRequest,
  ReplyIdentity,
  StreamFormat,
  StreamTransform,
  TransformedReply,
} from '../../dialects/dialect.ts';
import { replayRecording } from '../../dialects/engine.ts';
import { EventStreamReader } from '../../dialects/event-stream.ts';
import { dropsParameter } from '../../dialects/normalize/requests/vendor-parameters.ts';
import { canChat } from '../../dialects/registry.ts';
import { ChatBounds, imageUnits, textBytes } from '../../money/price/bounds.ts';
import { estimateUsage } from '../../money/price/cost.ts';
import { billableUsage, isPlausible, type SentRequest } from '../../money/price/usage-report.ts';
import { chatIncompatibility, compatibleOffers } from '../../route/capability.ts';
import type { Offer } from '../../route/catalog.ts';
import { type AttemptContext, type AttemptResult, noMetrics } from '../../upstream/attempt.ts';
import { attemptChat, droppedFields } from '../../upstream/chat-attempt.ts';
import type { StreamOutcome } from '../../upstream/stream-answer.ts';

function textOf(turns: readonly Turn[]): string {
  const texts = turns.flatMap(({ role, parts }) =>
    parts.map((part) => ('text' in part ? `${role} ${part.text}` : role)),
  );
  return texts.join('\n');
}

/** A chat request in any client dialect. */
export class ChatOperation implements Operation {
  readonly request: ChatRequestInfo;
  readonly bounds: ChatBounds;
  readonly streamFormat: StreamFormat;
  readonly skills: readonly string[];
  readonly #clientRequest: ClientRequest;
  /** The latest attempt, with which usage reports are compared. */
  #sent: SentRequest | undefined;

  constructor(clientRequest: ClientRequest) {
    this.request = clientRequest.request;
    this.bounds = new ChatBounds(clientRequest.request);
    this.streamFormat = clientRequest.streamFormat;
    const { skills } = clientRequest.request;
    this.skills = skills.length > 1 ? [...new Set(skills)] : skills;
    this.#clientRequest = clientRequest;
  }

  incompatibility({ model, dialect }: Offer): string | null {
    const reason = chatIncompatibility(model, this.request);
    return reason ?? (canChat(dialect) ? null : 'has no chat endpoint');
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    return this.#keepRepresentable(compatibleOffers(plan, this.request));
  }

  /**
   * Removes offers whose dialect can't express some part of a message. If no offer is left, throws
   * 400 and names the part.
   */
  #keepRepresentable(plan: readonly Offer[]): readonly Offer[] {
    const unsupportedPartFor = ({ dialect }: Offer) =>
      this.#clientRequest.unsupportedPartFor(dialect);
    const representable = plan.filter((offer) => unsupportedPartFor(offer) === undefined);
    const unsupported =
      representable.length === 0 && plan[0] ? unsupportedPartFor(plan[0]) : undefined;
    if (!unsupported) return representable;
    const type = unsupported.type.slice(0, nameLengthMax).toWellFormed();
    const reason = `has the type "${type}", which cannot be sent to this model`;
    throw invalidRequest(`${unsupported.param} ${reason}.`, unsupported.param);
  }

  lostFields(offer: Offer): readonly string[] {
    const adapter = this.#clientRequest.adapterFor(offer.dialect);
    return adapter ? this.lostFieldsWith(adapter, offer) : [];
  }

  /** Includes the first part that the offer's dialect can't express. */
  lostFieldsWith(adapter: Adapter, offer: Offer): readonly string[] {
    const part = this.#clientRequest.unsupportedPartFor(offer.dialect);
    return [...droppedFields(adapter, this.request, offer), ...(part ? [part.param] : [])];
  }

  tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    this.#sent = sentTo(offer, this.request, context);
    return attemptChat(this.#clientRequest, offer, context);
  }

  measure(metrics: AnswerMetrics, outcome: StreamOutcome['kind']): Measured {
    const { outputCharacters, finishReason } = metrics;
    const sent = this.#sent;
    const billable = billableUsage(metrics, {
      isComplete:
        outcome === 'complete' || (outcome === 'client_disconnected' && finishReason !== undefined),
      isPlausible: (usage) => !sent || isPlausible(usage, outputCharacters, sent),
      estimate: () =>
        estimateUsage(promptTextBytes(this.#clientRequest.toPrompt()), outputCharacters),
    });
    return { ...billable, units: imageUnits(this.request) };
  }

  measureInput(): Measured {
    return this.measure(noMetrics, 'client_disconnected');
  }

  promptStart(): string {
    const { turns } = this.#clientRequest.toPrompt();
    const first = turns.findIndex(({ role }) => role === 'user');
    return textOf(first === -1 ? turns : turns.slice(0, first + 1));
  }

  cacheIdentity(): CacheIdentity {
    const clientRequest = this.#clientRequest;
    const isRepeatable = clientRequest.temperature === 0;
    const streamMode = clientRequest.isStreamModeFixed ? clientRequest.request.stream : null;
    return { cacheKeyInput: () => [clientRequest.cacheKeyInput(), streamMode], isRepeatable };
  }

  replay(recording: Recording, identity: ReplyIdentity): TransformedReply | undefined {
    const { dialect, text } = recording;
    if (!canChat(dialect)) return undefined;
    const isStream = recording.form === 'stream';
    const clientRequest = this.#clientRequest;
    if (isStream !== this.request.stream)
      return replayRecording(recording, dialect, identity, clientRequest);
    const adapter = clientRequest.adapterFor(dialect);
    if (!adapter) return undefined;
    if (isStream) return replayStream(adapter.transformStream(identity), text);
    const reply = adapter.transformReply(text, identity);
    return reply.ok ? reply.value : undefined;
  }
}

const outputCapNames = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'];

/** Describes what an offer received, for the check of its usage report. */
export function sentTo(
  { model, quirks }: Offer,
  request: ChatRequestInfo,
  { outputTokensMax }: AttemptContext,
): SentRequest {
  const hasCap = !outputCapNames.some((name) => dropsParameter(quirks, name));
  return { request, model, textBytes: textBytes(request), outputTokensMax, hasCap };
}

/** Replays the recorded stream of an upstream to a client. */
function replayStream(transform: StreamTransform, text: string): TransformedReply {
  const reader = new EventStreamReader();
  let written = '';
  for (const message of [...reader.push(text), ...reader.end()]) written += transform.push(message);
  return { metrics: transform.metrics, write: (settled) => written + transform.close(settled) };
}
