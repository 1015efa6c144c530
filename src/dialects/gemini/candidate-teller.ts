/** Tells what one candidate of Gemini's says, piece by piece or at once. */
import type { AnswerListener } from '../../core/answer.ts';
import { type Fields, fieldsOf, isObject, isText, objectsIn, textOf } from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { malformed } from '../failure.ts';
import { markSignature } from '../signature.ts';
import { finishReasonOf, mistakeIn } from './finish.ts';
import { PartialArguments } from './partial-arguments.ts';

/** Whether a part is only the signature of what came before, without even an empty text. */
function isBare(part: Fields): boolean {
  return Object.keys(part).every((name) => name === 'thoughtSignature' || name === 'thought');
}

/** False for an empty text, which may carry a signature but no words. */
function saysAnything(part: Fields): boolean {
  return part.text !== '' && !isBare(part);
}

export class CandidateTeller {
  finished = false;
  readonly #to: AnswerListener;
  #calls = 0;
  /** The last call, while pieces of its arguments may follow. */
  #openCall: PartialArguments | undefined;
  #isThinking = false;
  /** Why the candidate ended. */
  #reason: string | undefined;
  /** The signature of the current text, which is told after that text. */
  #textSignature: string | undefined;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  take(candidate: Fields): UpstreamFailure | undefined {
    const { content, finishReason, finishMessage, groundingMetadata } = candidate;
    const parts = objectsIn(fieldsOf(content).parts);
    // Gemini's older models say STOP in every chunk: it is the end only if nothing else follows.
    const isStop = finishReason === undefined || finishReason === 'STOP';
    const isOver = this.finished && isStop && !parts.some(saysAnything);
    const hasMore =
      groundingMetadata !== undefined || parts.some((part) => isText(part.thoughtSignature));
    if (isOver && !hasMore) return undefined;
    for (const part of parts) this.#takePart(part);
    if (this.#openCall?.isTooLarge) {
      return malformed('The upstream sent arguments of a tool that are too large.');
    }
    if (groundingMetadata !== undefined) this.#cite(groundingMetadata);
    // Sources and signatures may come after the end; the finish reason stays the earlier one.
    const reason = isOver ? this.#reason : finishReason;
    if (!isText(reason) || reason === 'FINISH_REASON_UNSPECIFIED') return undefined;
    const mistake = mistakeIn(reason, finishMessage);
    if (mistake !== undefined) return mistake;
    this.#endCall();
    this.#endText();
    this.finished = true;
    this.#reason = reason;
    this.#to.finish(finishReasonOf(reason, this.#calls > 0), null);
    return undefined;
  }

  #takePart(part: Fields): void {
    const { text, functionCall, inlineData } = part;
    if (isObject(functionCall)) this.#takeCall(functionCall, part.thoughtSignature);
    else if (typeof text === 'string') this.#takeText(text, part);
    else if (isBare(part)) this.#takeText('', part);
    // A picture that the model drew while thinking is a draft.
    else if (isObject(inlineData) && part.thought !== true) this.#takeMedia(inlineData);
  }

  #takeText(text: string, { thought, thoughtSignature }: Fields): void {
    const signature = isText(thoughtSignature) ? thoughtSignature : undefined;
    if (thought === true) {
      this.#endText();
      this.#isThinking = true;
      if (text !== '') this.#to.reasoning(text);
      if (signature !== undefined) this.#sign(signature);
      return;
    }
    // A signature right after a thought belongs to that thought. Any other waits: a client that
    // never asked for thoughts must find the text first.
    if (signature !== undefined && this.#isThinking) this.#sign(signature);
    else if (signature !== undefined) this.#textSignature = signature;
    if (text === '') return;
    this.#isThinking = false;
    this.#to.text(text);
  }

  #takeCall(call: Fields, signature: unknown): void {
    if (isText(call.name)) this.#openNext(call.name, call, signature);
    const open = this.#openCall;
    if (open === undefined) return;
    open.add(call.partialArgs);
    if (call.willContinue !== true) this.#endCall();
  }

  #openNext(name: string, call: Fields, signature: unknown): void {
    this.#endCall();
    this.#endText();
    if (isText(signature)) this.#sign(signature);
    this.#isThinking = false;
    const number = this.#calls;
    this.#calls += 1;
    this.#to.toolCall(number, isText(call.id) ? call.id : newCallId(), name);
    if (isObject(call.args)) this.#to.toolArguments(number, JSON.stringify(call.args));
    else this.#openCall = new PartialArguments();
  }

  #endCall(): void {
    if (this.#openCall === undefined) return;
    this.#to.toolArguments(this.#calls - 1, this.#openCall.toJson());
    this.#openCall = undefined;
  }

  /** Signatures of pictures are left out: they run to megabytes, and cannot be sent back. */
  #takeMedia({ mimeType, data }: Fields): void {
    if (!isText(data) || !isText(mimeType) || !mimeType.startsWith('image/')) return;
    this.#endText();
    this.#isThinking = false;
    this.#to.image(mimeType, data);
  }

  #endText(): void {
    if (this.#textSignature === undefined) return;
    this.#sign(this.#textSignature);
    this.#textSignature = undefined;
  }

  #sign(signature: string): void {
    this.#isThinking = false;
    this.#to.reasoningSignature(markSignature('gemini', signature));
  }

  /** Tells sources without their positions: those count bytes of a text that is not kept. */
  #cite(grounding: unknown): void {
    for (const { web } of objectsIn(fieldsOf(grounding).groundingChunks)) {
      const { uri: url, title } = fieldsOf(web);
      if (isText(url)) this.#to.citation({ url, title: textOf(title), quote: '', range: null });
    }
  }
}
