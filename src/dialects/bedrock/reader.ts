/** Answers of Bedrock's Converse in our own words. */
import type { AnswerListener } from '../../core/answer.ts';
import { eventBytesMax, openBlocksMax } from '../../core/bounds.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  lengthOf,
  objectsIn,
  textOf,
} from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import { BlockTeller } from '../anthropic/block-teller.ts';
import { startedAgain } from '../anthropic/reader.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../dialect.ts';
import {
  failureInside,
  malformed,
  readErrorObject,
  unreadableAnswer,
  unreadableEvent,
} from '../failure.ts';
import { blockEvent, fromBase64, toBase64, wholeBlock } from './blocks.ts';
import { endFailure, finishReasonOf, stopSequenceIn } from './finish.ts';
import { brokenFrame } from './frames.ts';
import { readUsage } from './usage.ts';

/** An encrypted thought or a picture, which comes in pieces and is told once it is whole. */
interface OpaqueBlock {
  /** Null for a thought. */
  readonly mediaType: string | null;
  bytes: string;
}

export class BedrockStreamReader implements StreamReader {
  /** The answer is over; its usage follows. */
  finished = false;
  ended = false;
  readonly #to: AnswerListener;
  readonly #teller: BlockTeller;
  /** The numbers of all blocks that have not ended. */
  readonly #open = new Set<unknown>();
  readonly #opaque = new Map<unknown, OpaqueBlock>();
  #keptLength = 0;
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
      case 'contentBlockDelta':
        return this.#keep(fields) ?? this.#tell(blockEvent(fields), data);
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

  #tell(event: Fields | undefined, data: string): undefined {
    if (event && this.#teller.take({ fields: event, data }) > 0) this.#hasWords = true;
  }

  /** Keeps bytes until their block ends. The teller keeps signatures; their size counts here. */
  #keep({ contentBlockIndex: index, start, delta }: Fields): UpstreamFailure | undefined {
    this.#open.add(index);
    if (this.#open.size > openBlocksMax) {
      return malformed('The upstream opened too many blocks at once.');
    }
    const { format } = fieldsOf(fieldsOf(start).image);
    const { reasoningContent, image } = fieldsOf(delta);
    const { redactedContent: thought, signature } = fieldsOf(reasoningContent);
    const mediaType = isText(format) ? `image/${format}` : null;
    const isOpening = mediaType !== null || isText(thought);
    if (isOpening && !this.#opaque.has(index)) this.#opaque.set(index, { mediaType, bytes: '' });
    const block = this.#opaque.get(index);
    const piece = block ? fromBase64(textOf(thought) || bytesIn(fieldsOf(image))) : '';
    if (block) block.bytes += piece;
    this.#keptLength += piece.length + lengthOf(signature);
    const isLong = this.#keptLength > eventBytesMax;
    return isLong ? malformed('The upstream sent a block that is too long.') : undefined;
  }

  #close(index: unknown): void {
    this.#open.delete(index);
    this.#tell({ type: 'content_block_stop', index }, '');
    const block = this.#opaque.get(index);
    if (block === undefined) return;
    this.#opaque.delete(index);
    this.#keptLength -= block.bytes.length;
    if (block.bytes === '') return;
    this.#hasWords = true;
    if (block.mediaType !== null) this.#to.image(block.mediaType, toBase64(block.bytes));
    else this.#to.redactedReasoning(block.bytes);
  }

  #finish(end: Fields): UpstreamFailure | undefined {
    const failure = endFailure(end.stopReason);
    if (failure !== undefined) return failure;
    for (const index of [...this.#opaque.keys()]) this.#close(index);
    this.#teller.end();
    this.finished = true;
    tellFinish(this.#to, end, this.#teller.hasCalls);
    return undefined;
  }
}

/** Tells a whole answer; returns the failure if the text is none. */
export function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) return unreadableAnswer(text);
  const { output, stopReason, usage } = body;
  const message = fieldsOf(fieldsOf(output).message);
  if (!Array.isArray(message.content)) {
    return failureInside(body) ?? malformed('The upstream answered without content.');
  }
  const failure = endFailure(stopReason);
  if (failure !== undefined) return failure;
  const blocks = new BlockTeller(listener);
  for (const content of objectsIn(message.content)) tellBlock(content, blocks, listener);
  const read = readUsage(usage);
  if (read !== undefined) listener.usage?.(read);
  tellFinish(listener, body, blocks.hasCalls);
  return undefined;
}

function tellFinish(
  to: AnswerListener,
  { stopReason, additionalModelResponseFields: more }: Fields,
  hasCalls: boolean,
): void {
  to.finish(finishReasonOf(textOf(stopReason), hasCalls), stopSequenceIn(more));
}

function tellBlock(content: Fields, blocks: BlockTeller, listener: AnswerListener): void {
  const block = wholeBlock(content);
  if (block !== undefined) {
    blocks.tellWhole(block);
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

/** The name of an event says whether it is an exception; other unknown events are ignored. */
function failureNamed(event: string | null, fields: Fields): UpstreamFailure | undefined {
  if (event !== 'error' && !event?.endsWith('xception')) return undefined;
  return readErrorObject({ code: event, ...fields });
}
