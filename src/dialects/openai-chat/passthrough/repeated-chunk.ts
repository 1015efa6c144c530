/**
 * Recognizes chunks that differ from an earlier one only in their text, as nearly all chunks of a
 * stream do. Such a chunk doesn't need to be parsed.
 */
import { fieldsOf, itemsOf } from '../../../core/json.ts';
import { parseExact } from '../../normalize/exact-json.ts';

/**
 * How many times a template is learned. If all chunks of an upstream differ, learning more is
 * useless.
 */
const templatesMax = 4;

const contentKey = '"content":"';

/** Characters that end a JSON string or must be escaped in one. */
const special = /["\\\p{Cc}]/u;

/** Empty text isn't plain, because its meaning depends on earlier chunks. */
function isPlainText(content: string): boolean {
  return content !== '' && !special.test(content);
}

/** Random, so no upstream can have sent it. */
const marker = crypto.randomUUID();

export class RepeatedChunk {
  #templates = 0;
  #isKnown = false;
  #before = '';
  #after = '';
  #clientBefore = '';
  #clientAfter = '';

  /** Returns the text of a chunk that matches the template, or undefined. */
  contentOf(data: string): string | undefined {
    if (!this.#isKnown || !data.startsWith(this.#before) || !data.endsWith(this.#after)) {
      return undefined;
    }
    const end = data.length - this.#after.length;
    if (end < this.#before.length) return undefined;
    const content = data.slice(this.#before.length, end);
    return isPlainText(content) ? content : undefined;
  }

  /** Returns the client's version of the chunk with `content` as its text. */
  write(content: string): string {
    return this.#clientBefore + content + this.#clientAfter;
  }

  /**
   * Learns a chunk that contains only the text `content` and was sent to the client as `output`.
   */
  learn(data: string, output: string, content: string): void {
    if (this.#templates >= templatesMax || !isPlainText(content)) return;
    this.#templates += 1;
    const upstreamTemplate = cutOut(content, data);
    const clientTemplate = cutOut(content, output);
    if (
      !upstreamTemplate ||
      !clientTemplate ||
      !isDeltaContent(upstreamTemplate) ||
      !isDeltaContent(clientTemplate)
    )
      return;
    [this.#before, this.#after] = upstreamTemplate;
    [this.#clientBefore, this.#clientAfter] = clientTemplate;
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

/** True if the cut is at the delta's own `content`, not at another field with that name. */
function isDeltaContent([before, after]: ChunkTemplate): boolean {
  const start = before.startsWith(eventStart) ? eventStart.length : 0;
  const chunk = parseExact(before.slice(start) + marker + after);
  const [choice] = itemsOf(fieldsOf(chunk).choices);
  return fieldsOf(fieldsOf(choice).delta).content === marker;
}
