/**
 * Nearly every chunk of a stream differs from the one before only in its words. Where all text
 * around the words is the same to the letter, parsing the chunk would find the same, too.
 */
import { fieldsOf, itemsOf } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';

/** How often a chunk is learned: some upstreams write something new into each, so none repeats. */
const lessonsMax = 4;

const wordsKey = '"content":"';

/** What ends a JSON string, or must be escaped in one. */
const special = /["\\\p{Cc}]/u;

/** Empty words are not plain: what they mean depends on what was said before. */
function arePlain(words: string): boolean {
  return words !== '' && !special.test(words);
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
  wordsOf(data: string): string | undefined {
    if (!this.#isKnown || !data.startsWith(this.#before) || !data.endsWith(this.#after)) {
      return undefined;
    }
    const end = data.length - this.#after.length;
    if (end < this.#before.length) return undefined;
    const words = data.slice(this.#before.length, end);
    return arePlain(words) ? words : undefined;
  }

  /** The known chunk as the client gets it, with other words. */
  say(words: string): string {
    return this.#ownBefore + words + this.#ownAfter;
  }

  /** Takes a chunk that says these words and nothing else, and went to the client as `said`. */
  learn(data: string, said: string, words: string): void {
    if (this.#lessons >= lessonsMax || !arePlain(words)) return;
    this.#lessons += 1;
    const theirs = cutOut(words, data);
    const ours = cutOut(words, said);
    if (!theirs || !ours || !standsForWords(theirs) || !standsForWords(ours)) return;
    [this.#before, this.#after] = theirs;
    [this.#ownBefore, this.#ownAfter] = ours;
    this.#isKnown = true;
  }
}

type Around = readonly [before: string, after: string];

function cutOut(words: string, text: string): Around | undefined {
  const start = text.indexOf(wordsKey) + wordsKey.length;
  const end = start + words.length;
  if (start < wordsKey.length || text.slice(start, end + 1) !== `${words}"`) return undefined;
  return [text.slice(0, start), text.slice(end)];
}

const eventStart = 'data: ';

/** Whether the cut is at the delta's content: a look-alike would be exchanged or counted. */
function standsForWords([before, after]: Around): boolean {
  const start = before.startsWith(eventStart) ? eventStart.length : 0;
  const chunk = parseExact(before.slice(start) + marker + after);
  const [choice] = itemsOf(fieldsOf(chunk).choices);
  return fieldsOf(fieldsOf(choice).delta).content === marker;
}
