import { expect, test } from 'bun:test';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../../tests/support/gateway.ts';
import { loadConfig } from '../config/load.ts';
import type { GuardedResult } from '../upstream/guard/guarded-fetch.ts';
import { type Command, type Context, readArgs } from './command.ts';
import { apply, check } from './price-check.ts';

const folder = newFolder();
const entry = { litellm_provider: 'acme', output_cost_per_token: 1e-6 };
const list = JSON.stringify({ 'acme/a': { ...entry, input_cost_per_token: 2e-3 } });
const endpoint = { provider: 'acme', model: 'a', pricing: { prompt: '1', completion: '1' } };
const model = { id: 'acme/a', name: 'A', input_modalities: ['text'], output_modalities: ['text'] };
const config = loadConfig({}, {}, undefined, {
  source: 'tollgate.yaml',
  data: {
    catalogue: 'none',
    providers: { acme: { dialect: 'openai', base_url: 'http://127.0.0.1:1', api_key: null } },
  },
});
// The store has the model, so that its prices can be changed.
const stored = { kind: 'model', name: 'acme/a', document: { ...model, endpoints: [endpoint] } };
const merged = config.withStored([stored]);
const now = () => Date.UTC(2026, 10, 20);

function fileWith(text: string, bytes = text.length): string {
  const path = join(folder, `${crypto.randomUUID()}.json`);
  writeFileSync(path, text);
  if (bytes !== text.length) truncateSync(path, bytes);
  return path;
}

async function run(command: Command, argv: readonly string[], result?: GuardedResult) {
  const parsed = readArgs(command, argv);
  if (parsed.kind === 'invalid') throw new Error(parsed.message);
  const lines: string[] = [];
  let exitCode = 0;
  const objects = [{ ...stored, version: 1, createdAt: 0, updatedAt: 0 }];
  const control = {
    store: { read: async () => ({ version: 1, objects }) },
    base: () => config,
    now,
  };
  const context = {
    args: parsed.args,
    services: async () => ({
      ...{ control, now, currentConfig: async () => merged, download: async () => result },
    }),
    ...{ out: (line: string) => lines.push(line), err: (line: string) => lines.push(line), now },
    exitWith: (code: number) => {
      exitCode = code;
    },
  };
  await command.run(context as unknown as Context);
  return { exitCode, text: lines.join('\n') };
}

const url = 'https://user:secret@prices.example/api.json?token=secret';
const answer = (text: string, status = 200): GuardedResult => ({
  ...{ ok: true, status, contentType: null },
  bytes: new TextEncoder().encode(text),
});

test.each([
  ['a slow server', url, { ok: false, reason: 'It took too long.' }, "can't be read: It took"],
  ['a missing page', url, answer('', 404), "can't be read: The server answered with HTTP 404."],
  ['a web page', url, answer('<!doctype html>'), "can't be used. It is a web page, not JSON."],
  ['another file', url, answer('{}'), "can't be used. It isn't a price list that Tollgate knows"],
  ['a missing file', join(folder, 'none'), undefined, "can't be read: there is no such file."],
  ['a folder', folder, undefined, "can't be read: it is a folder."],
  ['50 MB', fileWith('', 50 * 1024 * 1024), undefined, "can't be read: it is larger than 32 MB."],
  ['invalid JSON', fileWith('{'), undefined, "can't be used. It isn't valid JSON."],
] as const)('prices check rejects %s in one sentence', async (_, source, result, message) => {
  const checking = run(check, [source], result);
  await expect(checking).rejects.toThrow(message);
  await expect(checking).rejects.not.toThrow('secret');
});

test.each([
  [['--model', 'acme/a'], 'No price was changed.'],
  [['--model', 'acme/b'], 'There is no model "acme/b"'],
  [['--provider', 'acm'], 'There is no provider "acm"; did you mean "acme"?'],
  [['--all', '--names', 'acm=acme'], '--names must have the form <provider>=<name in the list>'],
  [['--all', '--force', '--from', '2026-01-01T00:00:00Z'], 'from must be at least 2 seconds'],
])('prices apply with %j changes nothing', async (options, message) => {
  await expect(run(apply, [fileWith(list), ...options])).rejects.toThrow(message);
});

test('prices check exits with 0 if nothing differs', async () => {
  const same = { 'acme/a': { ...entry, input_cost_per_token: 1e-6 } };
  const { exitCode, text } = await run(check, [fileWith(JSON.stringify(same))]);
  expect([exitCode, text]).toEqual([0, 'LiteLLM has 1 endpoint of yours; none differs.']);
});
