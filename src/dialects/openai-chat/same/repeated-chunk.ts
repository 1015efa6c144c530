/**
 * Nearly every chunk of a stream differs from the one before only in its words. Where all text
 * around the words is the same to the letter, parsing the chunk would find the same, too.
 */
import { fieldsOf, itemsOf } from '../../../core/json.ts';
import { parseExact } from '../../normalize/exact-json.ts';

/** How often a chunk is learned: some upstreams write something new into each, so none repeats. */
const lessonsMax = 4;

const contentKey = '"content":"';

/** What ends a JSON string, or must be escaped in one. */
const special = /["\\\p{Cc}]/u;

/** Empty words are not plain: what they mean depends on what was said before. */
function isPlainText(content: string): boolean {
  return content !== '' && !special.test(content);
}

/** Random, so that no upstream can have written it. */
const marker = crypto.randomUUID();

export class RepeatedChunk {
  #lessons = 0;
  #isKnown = false;
  #before = '';
  #after = '';
  #ownBefore = '';
  #ownAfter = '';

  /** The words of a chunk that repeats the known one; undefined when it is no such chunk. */
  contentOf(data: string): string | undefined {
    if (!this.#isKnown || !data.startsWith(this.#before) || !data.endsWith(this.#after)) {
      return undefined;
    }
    const end = data.length - this.#after.length;
    if (end < this.#before.length) return undefined;
    const content = data.slice(this.#before.length, end);
    return isPlainText(content) ? content : undefined;
  }

  /** The known chunk as the client gets it, with other words. */
  write(content: string): string {
    return this.#ownBefore + content + this.#ownAfter;
  }

  /** Takes a chunk that says these words and nothing else, and went to the client as `said`. */
  learn(data: string, output: string, content: string): void {
    if (this.#lessons >= lessonsMax || !isPlainText(content)) return;
    this.#lessons += 1;
    const upstreamTemplate = cutOut(content, data);
    const ownTemplate = cutOut(content, output);
    if (
      !upstreamTemplate ||
      !ownTemplate ||
      !isDeltaContent(upstreamTemplate) ||
      !isDeltaContent(ownTemplate)
    )
      return;
    [this.#before, this.#after] = upstreamTemplate;
    [this.#ownBefore, this.#ownAfter] = ownTemplate;
    this.#isKnown = true;
  }
}

type ChunkTemplate = readonly [before: string, after: string];

function cutOut(content: string, text: string): ChunkTemplate | undefined {
  const start = text.indexOf(contentKey) + contentKey.length;
  const end = start + content.length;
  if (start < contentKey.length || text.slice(start, end + 1) !== `${content}"`) return undefined;
  return [text.slice(0, start), text.slice(end)];
}

const eventStart = 'data: ';

/** Whether the cut is at the delta's content: a look-alike would be exchanged or counted. */
function isDeltaContent([before, after]: ChunkTemplate): boolean {
  const start = before.startsWith(eventStart) ? eventStart.length : 0;
  const chunk = parseExact(before.slice(start) + marker + after);
  const [choice] = itemsOf(fieldsOf(chunk).choices);
  return fieldsOf(fieldsOf(choice).delta).content === marker;
}
