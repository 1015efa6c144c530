import { describe, expect, test } from 'bun:test';
import { type Args, type Command, readArgs } from './command.ts';

const command: Command = {
  name: 'try',
  summary: 'Try',
  positional: '<thing>',
  options: {
    amount: { value: '<n>', summary: 'How many', required: true },
    note: { value: '<text>', summary: 'Why' },
    loud: { summary: 'Say so' },
  },
  run: async () => undefined,
};

function read(...argv: string[]): Args {
  const parsed = readArgs(command, argv);
  if (parsed.kind === 'invalid') throw new Error(parsed.message);
  return parsed.args;
}

describe('readArgs', () => {
  test('accepts options in any order, with "=" or a space', () => {
    for (const argv of [
      ['x', '--amount', '5', '--loud', '--note=a b'],
      ['--loud', '--note', 'a b', '--amount=5', 'x'],
    ]) {
      const args = read(...argv);
      expect(args.positional).toBe('x');
      expect(args.number('amount')).toBe(5);
      expect(args.text('note')).toBe('a b');
      expect(args.has('loud')).toBe(true);
      expect(args.has('json')).toBe(false);
    }
  });

  test('makes only a positional argument in square brackets optional', () => {
    const optional: Command = { ...command, positional: '[thing]' };
    expect(readArgs(optional, ['--amount', '5'])).toMatchObject({ args: { positional: '' } });
    expect(readArgs(command, ['--amount', '5'])).toMatchObject({ message: '<thing> is missing.' });
  });

  test('accepts negative numbers', () => {
    expect(read('x', '--amount', '-5').number('amount')).toBe(-5);
    expect(read('x', '--amount=-5').number('amount')).toBe(-5);
  });

  test('accepts a value that looks like an option after "="', () => {
    expect(read('x', '--amount=5', '--note=--loud').text('note')).toBe('--loud');
  });

  test('returns values that are not whole numbers as text', () => {
    for (const text of ['1e3', '5.5', 'five', '']) {
      expect(read('x', `--amount=${text}`).number('amount')).toBe(text);
    }
  });

  test('splits comma-separated lists', () => {
    expect(read('x', '--amount', '1', '--note', 'a, b,c').list('note')).toEqual(['a', 'b', 'c']);
  });

  test.each([
    [['--amount', '1'], '<thing> is missing.'],
    [['x'], '--amount <n> is missing.'],
    [['x', 'y', '--amount', '1'], 'Unexpected argument "y".'],
    [['x', '--amuont', '1'], 'There is no option --amuont; did you mean --amount?'],
    [['x', '--amount'], '--amount needs a value: --amount <n>.'],
    [['x', '--amount', '--loud'], '--amount needs a value: --amount <n>.'],
    [['x', '--amount', '1', '--loud=yes'], "--loud doesn't take a value."],
    [['x', '--amount', '1', '--amount', '2'], '--amount is set twice. Use it once.'],
    [['x', '--amount', '1', '--constructor'], 'There is no option --constructor.'],
    [['x', '-q'], 'There is no option -q.'],
  ])('rejects %j', (argv, message) => {
    expect(readArgs(command, argv)).toEqual({ kind: 'invalid', message });
  });

  test('requires no other arguments with --help', () => {
    expect(read('--help').has('help')).toBe(true);
  });
});
