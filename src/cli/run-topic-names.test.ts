import { describe, expect, test } from 'bun:test';
import { type CommandEnvironment, runCommand } from './run.ts';
import { topics } from './topics.ts';

/** What people type who know other programs, before they know this one. */

async function tollgate(...words: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const never = () => Promise.reject(new Error('This needs no store.'));
  const world: CommandEnvironment = {
    version: '1.2.3',
    out: (text) => void out.push(text),
    write: async (piece) => void out.push(piece),
    err: (text) => void err.push(text),
    input: never,
    now: () => 0,
    openStore: never,
    loadModels: never,
    flush: async () => undefined,
  };
  const code = await runCommand(words, topics, world);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

test.each(['version', '--version', '-v', '-V'])('%s tells the version', async (word) => {
  expect(await tollgate(word)).toEqual({ code: 0, out: '1.2.3', err: '' });
});

test('help on help is the help', async () => {
  expect(await tollgate('help', 'help')).toEqual(await tollgate('help'));
});

describe('a word that is no command is told the one that was meant', () => {
  test.each([
    ['start', 'serve'],
    ['run', 'serve'],
    ['up', 'serve'],
    ['status', 'health'],
    ['key', 'keys'],
  ])('%s: %s', async (word, meant) => {
    const err = `There is no command "${word}"; did you mean "${meant}"? See "tollgate --help".`;
    expect(await tollgate(word)).toEqual({ code: 2, out: '', err });
    expect(await tollgate('help', word)).toEqual({ code: 2, out: '', err });
  });

  test('also where an option came before it', async () => {
    const { code, err } = await tollgate('--config', 'my.yaml', 'keys', 'list');
    expect(code).toBe(2);
    expect(err).toStartWith('The command comes first: tollgate <command> [options]. ');
  });
});

test.each([
  ['serve', '--port'],
  ['serve', '--host'],
  ['serve', '--config'],
  ['models', '--data-dir'],
])('%s %s "" is refused, as a script with an unset variable says it', async (topic, option) => {
  expect(await tollgate(topic, option, '')).toEqual({
    code: 2,
    out: '',
    err: `${option} is empty. See "tollgate ${topic} --help".`,
  });
});

test('health refuses an address that is none before it asks there', async () => {
  expect(await tollgate('health', '--url', '127.0.0.1:8080')).toEqual({
    code: 1,
    out: '',
    err: '--url must be an address such as https://gateway.example.com, not "127.0.0.1:8080".',
  });
});

test('health asks at the root of an address that was copied from a client', async () => {
  const { err } = await tollgate('health', '--url', 'http://127.0.0.1:1/v1/');
  expect(err).toStartWith('Nothing answers at http://127.0.0.1:1/readyz (ECONNREFUSED)');
});
