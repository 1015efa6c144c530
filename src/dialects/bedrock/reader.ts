/** Answers of Bedrock's Converse in our own words. */
import type { AnswerListener } from '../../core/answer.ts';
import { eventBytesMax, openBlocksMax } from '../../core/bounds.ts';
import { type Fields, fieldsOf, isObject, isText, objectsIn, textOf } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import { BlockTeller } from '../anthropic/block-teller.ts';
import { noStopReason } from '../anthropic/finish.ts';
import { startedAgain } from '../anthropic/reader.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../dialect.ts';
import {
  failureInside,
  malformed,
  readErrorObject,
  unreadableAnswer,
  unreadableEvent,
} from '../failure.ts';
import { blockDelta, fromBase64, openedBlock, toBase64, wholeBlock } from './blocks.ts';
import { finishReasonOf, mistakeIn, stopSequenceIn } from './finish.ts';
import { brokenFrame } from './frames.ts';
import { readUsage } from './usage.ts';

/** An encrypted thought or a picture: it comes in pieces and is told whole. */
interface OpaqueBlock {
  /** Null for a thought. */
  readonly mediaType: string | null;
  bytes: string;
}

export class BedrockStreamReader implements StreamReader {
  /** The answer is over; what it used follows. */
  finished = false;
  ended = false;
  readonly #to: AnswerListener;
  readonly #teller: BlockTeller;
  readonly #opaque = new Map<unknown, OpaqueBlock>();
  #opaqueLength = 0;
  #hasWords = false;

  constructor(to: AnswerListener) {
    this.#to = to;
    this.#teller = new BlockTeller(to);
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    if (this.ended) return undefined;
    const fields = parseExact(data);
    if (event === 'metadata' && isObject(fields)) return this.#takeUsage(fields);
    // Whatever breaks after the end loses the usage at most: the answer is whole.
    if (this.finished) return undefined;
    if (!isObject(fields)) return unreadableEvent(data);
    switch (event) {
      case 'messageStart':
        return this.#hasWords ? malformed(startedAgain) : undefined;
      case 'contentBlockStart':
        return this.#open(fields);
      case 'contentBlockDelta':
        return this.#tell(fields);
      case 'contentBlockStop':
        this.#close(fields.contentBlockIndex);
        return undefined;
      case 'messageStop':
        return this.#finish(fields);
      case brokenFrame:
        return malformed(isText(fields.message) ? fields.message : brokenFrame);
      default:
        return failureNamed(event, fields);
    }
  }

  #takeUsage({ usage }: Fields): undefined {
    const read = readUsage(usage);
    if (read !== undefined) this.#to.usage?.(read);
    this.ended = this.finished;
  }

  #open({ contentBlockIndex: index, start }: Fields): UpstreamFailure | undefined {
    if (!isObject(start)) return undefined;
    const { image } = start;
    if (isObject(image) && isText(image.format)) {
      return this.#keep(index, `image/${image.format}`, '');
    }
    const block = openedBlock(start);
    return block && this.#count(this.#teller.open(index, block));
  }

  #tell({ contentBlockIndex: index, delta }: Fields): UpstreamFailure | undefined {
    if (!isObject(delta)) return undefined;
    const { reasoningContent, image } = delta;
    if (isObject(reasoningContent)) return this.#think(index, reasoningContent);
    if (isObject(image)) {
      const isOpen = this.#opaque.has(index);
      return isOpen ? this.#keep(index, null, fromBase64(bytesIn(image))) : undefined;
    }
    const piece = blockDelta(delta);
    return piece && this.#count(this.#teller.delta(index, piece));
  }

  #think(index: unknown, thought: Fields): UpstreamFailure | undefined {
    const { text, signature, redactedContent } = thought;
    if (isText(redactedContent)) return this.#keep(index, null, fromBase64(redactedContent));
    // A proof is kept until its thought ends, and is not to grow without one.
    this.#opaqueLength += isText(signature) ? signature.length : 0;
    if (this.#opaqueLength > eventBytesMax) return tooLong();
    const told = this.#teller.delta(index, { type: 'thinking_delta', thinking: text });
    this.#teller.delta(index, { type: 'signature_delta', signature });
    return this.#count(told);
  }

  #keep(index: unknown, mediaType: string | null, piece: string): UpstreamFailure | undefined {
    const block = this.#opaque.get(index) ?? { mediaType, bytes: '' };
    this.#opaque.set(index, block);
    block.bytes += piece;
    this.#opaqueLength += piece.length;
    if (this.#opaque.size > openBlocksMax) return tooManyBlocks();
    return this.#opaqueLength > eventBytesMax ? tooLong() : undefined;
  }

  #close(index: unknown): void {
    this.#teller.close(index);
    const block = this.#opaque.get(index);
    if (block === undefined) return;
    this.#opaque.delete(index);
    this.#opaqueLength -= block.bytes.length;
    if (block.bytes === '') return;
    this.#hasWords = true;
    if (block.mediaType !== null) this.#to.image(block.mediaType, toBase64(block.bytes));
    else this.#to.redactedReasoning(block.bytes);
  }

  #finish({ stopReason, additionalModelResponseFields }: Fields): UpstreamFailure | undefined {
    if (!isText(stopReason)) return malformed(noStopReason);
    const mistake = mistakeIn(stopReason);
    if (mistake !== undefined) return mistake;
    for (const index of [...this.#opaque.keys()]) this.#close(index);
    this.#teller.closeAll();
    this.finished = true;
    const stopSequence = stopSequenceIn(additionalModelResponseFields);
    this.#to.finish(finishReasonOf(stopReason, this.#teller.hasCalls), stopSequence);
    return undefined;
  }

  #count(characters: number): UpstreamFailure | undefined {
    if (Number.isNaN(characters)) return tooManyBlocks();
    this.#hasWords ||= characters > 0;
    return undefined;
  }
}

/** Tells a whole answer; the failure that it is instead, if it is one. */
export function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) return unreadableAnswer(text);
  const { output, stopReason, usage, additionalModelResponseFields } = body;
  const message = fieldsOf(fieldsOf(output).message);
  if (!Array.isArray(message.content)) {
    return failureInside(body) ?? malformed('The upstream answered without content.');
  }
  if (!isText(stopReason)) return malformed(noStopReason);
  const mistake = mistakeIn(stopReason);
  if (mistake !== undefined) return mistake;
  const blocks = new BlockTeller(listener);
  for (const content of objectsIn(message.content)) tellBlock(content, blocks, listener);
  const read = readUsage(usage);
  if (read !== undefined) listener.usage?.(read);
  const stopSequence = stopSequenceIn(additionalModelResponseFields);
  listener.finish(finishReasonOf(stopReason, blocks.hasCalls), stopSequence);
  return undefined;
}

function tellBlock(content: Fields, blocks: BlockTeller, listener: AnswerListener): void {
  const block = wholeBlock(content);
  if (block !== undefined) {
    blocks.open(content, block);
    blocks.close(content);
    return;
  }
  const { image } = content;
  if (!isObject(image) || !isText(image.format)) return;
  const bytes = bytesIn(image);
  if (bytes !== '') listener.image(`image/${image.format}`, bytes);
}

function bytesIn({ source }: Fields): string {
  return textOf(fieldsOf(source).bytes);
}

/** Exceptions go by the name of their event; what else is new is not for us. */
function failureNamed(event: string | null, fields: Fields): UpstreamFailure | undefined {
  if (event !== 'error' && !event?.endsWith('xception')) return undefined;
  return readErrorObject({ code: event, ...fields });
}

function tooManyBlocks(): UpstreamFailure {
  return malformed('The upstream opened too many blocks at once.');
}

function tooLong(): UpstreamFailure {
  return malformed('The upstream sent a block that is too long.');
}
