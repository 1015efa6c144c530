import { describe, expect, test } from 'bun:test';
import { type Args, type Command, readArgs } from './command.ts';

const command: Command = {
  name: 'try',
  summary: 'Try',
  operand: '<thing>',
  options: {
    amount: { value: '<n>', summary: 'How many', required: true },
    note: { value: '<text>', summary: 'Why' },
    loud: { summary: 'Say so' },
  },
  run: async () => undefined,
};

function read(...words: string[]): Args {
  const reading = readArgs(command, words);
  if (reading.kind === 'wrong') throw new Error(reading.message);
  return reading.args;
}

describe('the words behind a command', () => {
  test('may come in any order, with "=" or a space', () => {
    for (const words of [
      ['x', '--amount', '5', '--loud', '--note=a b'],
      ['--loud', '--note', 'a b', '--amount=5', 'x'],
    ]) {
      const args = read(...words);
      expect(args.operand).toBe('x');
      expect(args.number('amount')).toBe(5);
      expect(args.text('note')).toBe('a b');
      expect(args.has('loud')).toBe(true);
      expect(args.has('json')).toBe(false);
    }
  });

  test('may lack a value that stands in square brackets, and no other', () => {
    const optional: Command = { ...command, operand: '[thing]' };
    expect(readArgs(optional, ['--amount', '5'])).toMatchObject({ args: { operand: '' } });
    expect(readArgs(command, ['--amount', '5'])).toMatchObject({ message: '<thing> is missing.' });
  });

  test('may be negative numbers', () => {
    expect(read('x', '--amount', '-5').number('amount')).toBe(-5);
    expect(read('x', '--amount=-5').number('amount')).toBe(-5);
  });

  test('may begin as an option does behind "="', () => {
    expect(read('x', '--amount=5', '--note=--loud').text('note')).toBe('--loud');
  });

  test('stay text where they are no numbers', () => {
    for (const text of ['1e3', '5.5', 'five', '']) {
      expect(read('x', `--amount=${text}`).number('amount')).toBe(text);
    }
  });

  test('are lists where they have commas', () => {
    expect(read('x', '--amount', '1', '--note', 'a, b,c').list('note')).toEqual(['a', 'b', 'c']);
  });

  test.each([
    [['--amount', '1'], '<thing> is missing.'],
    [['x'], '--amount <n> is missing.'],
    [['x', 'y', '--amount', '1'], '"y" is one word too many.'],
    [['x', '--amuont', '1'], 'There is no option --amuont; did you mean --amount?'],
    [['x', '--amount'], '--amount needs a value: --amount <n>.'],
    [['x', '--amount', '--loud'], '--amount needs a value: --amount <n>.'],
    [['x', '--amount', '1', '--loud=yes'], '--loud takes no value.'],
    [['x', '--amount', '1', '--amount', '2'], '--amount is given twice.'],
    [['x', '--amount', '1', '--constructor'], 'There is no option --constructor.'],
    [['x', '-q'], 'There is no option -q.'],
  ])('%j are refused', (words, message) => {
    expect(readArgs(command, words)).toEqual({ kind: 'wrong', message });
  });

  test('need nothing else when help is asked for', () => {
    expect(read('--help').has('help')).toBe(true);
  });
});
