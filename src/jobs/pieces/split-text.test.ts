import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import { splitText } from './split-text.ts';

const characters = (max: number) => ({ unit: 'characters', max }) as const;
const bytes = (max: number) => ({ unit: 'bytes', max }) as const;

describe('splitText', () => {
  test('returns a text within the limit as one piece', () => {
    expect(splitText('One. Two. Three.', characters(16))).toEqual(['One. Two. Three.']);
  });

  test('cuts after the last sentence that fits', () => {
    expect(splitText('One is here. Two is there! Three?', characters(27))).toEqual([
      'One is here. Two is there!',
      'Three?',
    ]);
  });

  test('cuts after quotes and brackets that close a sentence', () => {
    expect(splitText('He said “no.” Then he left.', characters(20))).toEqual([
      'He said “no.”',
      'Then he left.',
    ]);
  });

  test('does not cut at a decimal point', () => {
    expect(splitText('It costs 3.50 dollars today, no more', characters(14))).toEqual([
      'It costs 3.50',
      'dollars today,',
      'no more',
    ]);
  });

  test('cuts after Chinese and Japanese punctuation, which has no space after it', () => {
    expect(splitText('今天天气很好。我们去公园吧！好的。', characters(12))).toEqual([
      '今天天气很好。',
      '我们去公园吧！好的。',
    ]);
    // The quote after the cut opens the next sentence.
    expect(splitText('他走了。“你好吗？”她说', characters(9))).toEqual([
      '他走了。',
      '“你好吗？”她说',
    ]);
    // 7 characters of 3 bytes are 21 bytes.
    expect(splitText('今天天气很好。我们去公园吧！', bytes(22))).toEqual([
      '今天天气很好。',
      '我们去公园吧！',
    ]);
  });

  test.each([
    ['Hindi', 'यह पहला है। यह दूसरा', ['यह पहला है।', 'यह दूसरा']],
    ['Urdu', 'یہ پہلا ہے۔ یہ دوسرا', ['یہ پہلا ہے۔', 'یہ دوسرا']],
    ['Arabic', 'هل هذا صحيح؟ نعم هو كذلك', ['هل هذا صحيح؟', 'نعم هو كذلك']],
    ['Amharic', 'ይህ ነው። ያ ደግሞ ሌላ', ['ይህ ነው።', 'ያ ደግሞ ሌላ']],
    ['Armenian', 'Դա ճիշտ է։ Սա էլ', ['Դա ճիշտ է։', 'Սա էլ']],
    ['Burmese', 'ဟုတ်သည်။ ထို ခွေး', ['ဟုတ်သည်။', 'ထို ခွေး']],
    ['German', '„Ich gehe.“ Er ging fort', ['„Ich gehe.“', 'Er ging fort']],
    ['Arabic, in a long sentence', 'جاء الولد، ثم ذهب البنت', ['جاء الولد،', 'ثم ذهب البنت']],
  ])('cuts after the punctuation of %s', (_, text, pieces) => {
    expect(splitText(text, characters(text.length - 1))).toEqual(pieces);
  });

  test('prefers the end of a sentence to a line break inside one', () => {
    const wrapped = 'This is one sentence. And this\nis another, which\nends here.';
    expect(splitText(wrapped, characters(50))).toEqual([
      'This is one sentence.',
      'And this\nis another, which\nends here.',
    ]);
  });

  test('cuts after a paragraph, or after a line if no sentence ends', () => {
    const titled = 'A title\n \nIts first words go on';
    expect(splitText(titled, characters(30))).toEqual(['A title', 'Its first words go on']);
    const verses = 'a rose, a tree\na house, a road';
    expect(splitText(verses, characters(25))).toEqual(['a rose, a tree', 'a house, a road']);
  });

  test('cuts a long sentence after a clause if possible, otherwise between words', () => {
    expect(splitText('first part, second part and more', characters(15))).toEqual([
      'first part,',
      'second part and',
      'more',
    ]);
  });

  test('cuts inside a word that exceeds the limit, but never inside a grapheme', () => {
    expect(splitText('abcdefghij', characters(4))).toEqual(['abcd', 'efgh', 'ij']);
    expect(splitText('👍👍👍', characters(3))).toEqual(['👍', '👍', '👍']);
    expect(splitText('👍👍👍', bytes(9))).toEqual(['👍👍', '👍']);
    // This emoji is one grapheme of 11 UTF-16 units.
    expect(splitText('👨‍👩‍👧‍👦👨‍👩‍👧‍👦', characters(13))).toEqual(['👨‍👩‍👧‍👦', '👨‍👩‍👧‍👦']);
  });

  test('returns no pieces that contain only white space', () => {
    expect(splitText(`One.${' '.repeat(50)}\n\n\nTwo.`, characters(10))).toEqual(['One.', 'Two.']);
    expect(splitText(' \n ', characters(10))).toEqual([]);
  });

  test('respects the limit and drops only white space', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 400 });
    const marks = fc.array(fc.constantFrom('Word ', 'a', '。', '. ', ', ', '\n', '字', '👍'), {
      maxLength: 200,
    });
    const either = fc.oneof(
      text,
      marks.map((parts) => parts.join('')),
    );
    const withoutSpace = (text: string) => text.replaceAll(/\s/gu, '');
    fc.assert(
      fc.property(either, fc.integer({ min: 8, max: 60 }), fc.boolean(), (input, max, isBytes) => {
        const pieces = splitText(input, isBytes ? bytes(max) : characters(max));
        expect(withoutSpace(pieces.join(''))).toBe(withoutSpace(input));
        for (const piece of pieces) {
          expect(isBytes ? Buffer.byteLength(piece) : piece.length).toBeLessThanOrEqual(max);
          expect(piece.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  test.each(['.', '.”', ',', 'a', '。', '"'])(
    'splits 200,000 characters of %p in linear time',
    (unit) => {
      const text = unit.repeat(200_000 / unit.length);
      expect(splitText(text, characters(4_096)).join('')).toBe(text);
      expect(splitText(text, bytes(1_000)).join('')).toBe(text);
    },
  );

  test.each(['\n', ' ', '\u3000'])('returns no pieces for 200,000 times %p', (unit) => {
    expect(splitText(unit.repeat(200_000), characters(4_096))).toEqual([]);
  });
});
