import { describe, expect, test } from 'bun:test';
import { noUsage } from '../core/usage.ts';
import { Watch } from '../core/watch.ts';
import { BytesAnswer, type OpenBytes } from './bytes-answer.ts';
import { Line } from './line.ts';
import type { StreamEnd } from './stream-answer.ts';
import { noFacts } from './try-whole.ts';

/** An answer of these pieces; null is where the connection breaks. */
function answerOf(...pieces: readonly (string | null)[]) {
  const [first = '', ...rest] = pieces;
  const facts = { ...noFacts };
  const bytes: OpenBytes = {
    kind: 'bytes',
    contentType: 'audio/mpeg',
    contentLength: null,
    first: Buffer.from(first ?? ''),
    async next() {
      const piece = rest.shift();
      if (piece === null) throw new Error('broken');
      return piece === undefined ? undefined : Buffer.from(piece);
    },
    line: new Line(new Watch(), new AbortController().signal),
    facts,
  };
  const ends: string[] = [];
  const settle = async ({ how }: StreamEnd) => {
    ends.push(`${how} after ${heard.text}`);
    return { usage: noUsage, costCredits: 1 };
  };
  const heard = { text: '' };
  return { answer: new BytesAnswer(bytes, settle), facts, ends, heard };
}

async function listen({ answer, heard }: ReturnType<typeof answerOf>): Promise<'end' | 'break'> {
  try {
    for (let step = await answer.next(); !step.done; step = await answer.next()) {
      heard.text += Buffer.from(step.value).toString();
    }
    return 'end';
  } catch {
    return 'break';
  }
}

describe('bytes on their way', () => {
  test.each([
    [['abc', 'd', 'ef'], 'abcde'],
    [['a', 'b'], 'a'],
    [['a'], ''],
  ])('%j: all but the last byte come before the bill', async (pieces, before) => {
    const one = answerOf(...pieces);
    expect(await listen(one)).toBe('end');
    expect(one.heard.text).toBe(pieces.join(''));
    expect(one.ends).toEqual([`complete after ${before}`]);
    expect(one.facts.outputCharacters).toBe(pieces.join('').length);
  });

  test('a piece does not wait for the next one', async () => {
    const { answer } = answerOf('abc');
    const { value } = await answer.next();
    expect(Buffer.from(value ?? []).toString()).toBe('ab');
  });

  test('what came before a break still goes out, and then it is told', async () => {
    const one = answerOf('abc', 'de', null);
    expect(await listen(one)).toBe('break');
    expect([one.heard.text, one.facts.outputCharacters]).toEqual(['abcde', 5]);
    expect(one.ends).toEqual(['cut after abcd']);
  });

  test('a client that never takes anything has left, and is billed once', async () => {
    const one = answerOf('abc');
    await one.answer.return();
    await one.answer.return();
    expect(one.ends).toEqual(['left after ']);
    expect(one.facts.outputCharacters).toBe(0);
    expect(await one.answer.next()).toEqual({ done: true, value: undefined });
  });
});
