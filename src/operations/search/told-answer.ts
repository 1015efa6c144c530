import type { AnswerListener, Citation } from '../../core/answer.ts';
import { isObject, parseJson } from '../../core/json.ts';
import { finishWords } from '../../dialects/answer/tally.ts';

/** An answer with searches has one choice only, and its pictures are bytes or links. */
type Word = Exclude<keyof AnswerListener, 'choice' | 'imageAt'>;
type ToldLine = readonly [Word, ...unknown[]];
type Say = (...words: unknown[]) => void;

/** A listener that passes everything on to another; `note` hears it first. */
export function passOn(to: AnswerListener, note?: (line: ToldLine) => void): AnswerListener {
  const pass = (name: Word): readonly [Word, Say] => [
    name,
    (...words) => {
      // JSON has no undefined; optional words come last, so leaving them out moves no other.
      note?.([name, ...words.filter((word) => word !== undefined)]);
      (to[name] as Say | undefined)?.apply(to, words);
    },
  ];
  const said = (Object.keys(shapes) as Word[]).map(pass);
  return Object.fromEntries(said) as Readonly<Record<Word, Say>>;
}

/**
 * Writes down an answer that no single upstream gave, in our own words: one line of JSON for each
 * call of the listener, which is passed on to the client at the same time.
 */
export function writingDown(to: AnswerListener, write: (line: string) => void): AnswerListener {
  return passOn(to, (line) => write(`${JSON.stringify(line)}\n`));
}

/** Tells a written answer again; false if it is none: others may write to the same Redis. */
export function tellAgain(text: string, to: AnswerListener): boolean {
  const lines = text.trimEnd().split('\n').map(parseJson);
  if (!lines.every(isLine)) return false;
  for (const [name, ...words] of lines) {
    (to[name] as Say).apply(to, words);
  }
  return true;
}

type Check = (word: unknown) => boolean;

const isText: Check = (word) => typeof word === 'string';
const isNumber: Check = (word) => Number.isSafeInteger(word);
const isCitation: Check = (word) => {
  if (!isObject(word)) return false;
  const { url, title, quote, range } = word as Partial<Record<keyof Citation, unknown>>;
  const isRange = range === null || (isObject(range) && isNumber(range.start));
  return [url, title, quote].every(isText) && isRange;
};

const shapes: Readonly<Record<Word, readonly Check[]>> = {
  text: [isText],
  reasoning: [isText, (name) => name === undefined || name === 'reasoning_content'],
  reasoningSignature: [isText],
  redactedReasoning: [isText],
  toolCall: [isNumber, isText, isText],
  toolArguments: [isNumber, isText],
  refusal: [isText],
  citation: [isCitation],
  image: [isText, isText],
  finish: [
    (word) => isText(word) && Object.hasOwn(finishWords, String(word)),
    (word) => word === null || isText(word),
  ],
  usage: [(word) => isObject(word) && Object.values(word).every(isNumber)],
};

function isLine(line: unknown): line is ToldLine {
  if (!Array.isArray(line) || !isText(line[0]) || !Object.hasOwn(shapes, line[0])) return false;
  const [name, ...words] = line as unknown as ToldLine;
  const checks = shapes[name];
  return words.length <= checks.length && checks.every((check, at) => check(words[at]));
}
