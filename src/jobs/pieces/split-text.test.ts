import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { splitText } from './split-text.ts';

const characters = (max: number) => ({ unit: 'characters', max }) as const;
const bytes = (max: number) => ({ unit: 'bytes', max }) as const;

describe('a text is cut', () => {
  test('not at all when one call takes it', () => {
    expect(splitText('One. Two. Three.', characters(16))).toEqual(['One. Two. Three.']);
  });

  test('behind the last sentence that fits', () => {
    expect(splitText('One is here. Two is there! Three?', characters(27))).toEqual([
      'One is here. Two is there!',
      'Three?',
    ]);
  });

  test('behind quotes and brackets that close a sentence', () => {
    expect(splitText('He said “no.” Then he left.', characters(20))).toEqual([
      'He said “no.”',
      'Then he left.',
    ]);
  });

  test('never at the dot of a number', () => {
    expect(splitText('It costs 3.50 dollars today, no more', characters(14))).toEqual([
      'It costs 3.50',
      'dollars today,',
      'no more',
    ]);
  });

  test('behind Chinese and Japanese marks, which no space follows', () => {
    expect(splitText('今天天气很好。我们去公园吧！好的。', characters(12))).toEqual([
      '今天天气很好。',
      '我们去公园吧！好的。',
    ]);
    // The quote that follows opens what comes next.
    expect(splitText('他走了。“你好吗？”她说', characters(9))).toEqual([
      '他走了。',
      '“你好吗？”她说',
    ]);
    // 7 characters of 3 bytes are 21.
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
  ])('behind the marks of %s', (_, text, pieces) => {
    expect(splitText(text, characters(text.length - 1))).toEqual(pieces);
  });

  test('behind a sentence, not where the lines of an e-mail or a book happen to end', () => {
    const wrapped = 'This is one sentence. And this\nis another, which\nends here.';
    expect(splitText(wrapped, characters(50))).toEqual([
      'This is one sentence.',
      'And this\nis another, which\nends here.',
    ]);
  });

  test('behind a paragraph, and behind a line when no sentence ends', () => {
    const titled = 'A title\n \nIts first words go on';
    expect(splitText(titled, characters(30))).toEqual(['A title', 'Its first words go on']);
    const verses = 'a rose, a tree\na house, a road';
    expect(splitText(verses, characters(25))).toEqual(['a rose, a tree', 'a house, a road']);
  });

  test('behind a clause, else between words, when a sentence is too long', () => {
    expect(splitText('first part, second part and more', characters(15))).toEqual([
      'first part,',
      'second part and',
      'more',
    ]);
  });

  test('inside a word only when it is longer than a piece, and never inside a character', () => {
    expect(splitText('abcdefghij', characters(4))).toEqual(['abcd', 'efgh', 'ij']);
    expect(splitText('👍👍👍', characters(3))).toEqual(['👍', '👍', '👍']);
    expect(splitText('👍👍👍', bytes(9))).toEqual(['👍👍', '👍']);
    // A family is eleven UTF-16 units joined into one.
    expect(splitText('👨‍👩‍👧‍👦👨‍👩‍👧‍👦', characters(13))).toEqual(['👨‍👩‍👧‍👦', '👨‍👩‍👧‍👦']);
  });

  test('without pieces of nothing but space', () => {
    expect(splitText(`One.${' '.repeat(50)}\n\n\nTwo.`, characters(10))).toEqual(['One.', 'Two.']);
    expect(splitText(' \n ', characters(10))).toEqual([]);
  });

  test('within every limit, without losing anything but space', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 400 });
    const marks = fc.array(fc.constantFrom('Word ', 'a', '。', '. ', ', ', '\n', '字', '👍'), {
      maxLength: 200,
    });
    const either = fc.oneof(
      text,
      marks.map((parts) => parts.join('')),
    );
    const bare = (words: string) => words.replaceAll(/\s/gu, '');
    fc.assert(
      fc.property(either, fc.integer({ min: 8, max: 60 }), fc.boolean(), (words, max, isBytes) => {
        const pieces = splitText(words, isBytes ? bytes(max) : characters(max));
        expect(bare(pieces.join(''))).toBe(bare(words));
        for (const piece of pieces) {
          expect(isBytes ? Buffer.byteLength(piece) : piece.length).toBeLessThanOrEqual(max);
          expect(piece.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  test.each(['.', '.”', ',', 'a', '。', '"'])(
    'before the test runs out of time when it is 200,000 times %p',
    (unit) => {
      const text = unit.repeat(200_000 / unit.length);
      expect(splitText(text, characters(4_096)).join('')).toBe(text);
      expect(splitText(text, bytes(1_000)).join('')).toBe(text);
    },
  );

  test.each(['\n', ' ', '\u3000'])('into nothing when it is 200,000 times %p', (unit) => {
    expect(splitText(unit.repeat(200_000), characters(4_096))).toEqual([]);
  });
});
