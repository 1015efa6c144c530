import { describe, expect, test } from 'bun:test';
import { type CommandEnvironment, runCommand } from './dispatch.ts';
import { topics } from './topics.ts';

async function tollgate(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const unexpected = () => Promise.reject(new Error('The command must not use this.'));
  const environment: CommandEnvironment = {
    version: '1.2.3',
    out: (text) => void out.push(text),
    write: async (piece) => void out.push(piece),
    err: (text) => void err.push(text),
    input: unexpected,
    now: () => 0,
    openStore: unexpected,
    loadModels: unexpected,
    flush: async () => undefined,
  };
  const code = await runCommand(args, topics, environment);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

test.each(['version', '--version', '-v', '-V'])('tollgate %s prints the version', async (word) => {
  expect(await tollgate(word)).toEqual({ code: 0, out: '1.2.3', err: '' });
});

test('tollgate help help prints the overview', async () => {
  expect(await tollgate('help', 'help')).toEqual(await tollgate('help'));
});

describe('an unknown command', () => {
  test.each([
    ['start', 'serve'],
    ['run', 'serve'],
    ['up', 'serve'],
    ['status', 'health'],
    ['key', 'keys'],
  ])('%s suggests %s', async (word, suggestion) => {
    const did = `did you mean "${suggestion}"?`;
    const err = `There is no command "${word}"; ${did} See "tollgate --help".`;
    expect(await tollgate(word)).toEqual({ code: 2, out: '', err });
    expect(await tollgate('help', word)).toEqual({ code: 2, out: '', err });
  });

  test('that comes after an option prints a hint to put the command first', async () => {
    const { code, err } = await tollgate('--config', 'my.yaml', 'keys', 'list');
    expect(code).toBe(2);
    expect(err).toStartWith('Put the command before its options: tollgate <command> [options]. ');
  });
});

test.each([
  ['serve', '--port'],
  ['serve', '--host'],
  ['serve', '--config'],
  ['models', '--data-dir'],
])('tollgate %s rejects an empty %s, as from an unset variable', async (topic, option) => {
  expect(await tollgate(topic, option, '')).toEqual({
    code: 2,
    out: '',
    err: `${option} is empty. See "tollgate ${topic} --help".`,
  });
});

test('tollgate health rejects an invalid --url', async () => {
  expect(await tollgate('health', '--url', '127.0.0.1:8080')).toEqual({
    code: 1,
    out: '',
    err: '--url must be a URL such as https://gateway.example.com, not "127.0.0.1:8080".',
  });
});

test('tollgate health removes /v1 from --url', async () => {
  const { err } = await tollgate('health', '--url', 'http://127.0.0.1:1/v1/');
  expect(err).toStartWith('No gateway answers at http://127.0.0.1:1/readyz (ECONNREFUSED)');
});
