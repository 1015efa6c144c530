/** Uploads are buffered on disk, so that large concurrent uploads need little memory. */
import { expect, test } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { wavHeader } from '../../src/demo/speech.ts';
import { startFakeUpstreamProcess, transcription } from '../support/fake-upstream.ts';
import { newFolder, startGateway } from '../support/gateway.ts';

const megabyte = 1024 * 1024;
const uploads = 20;

/** Returns the peak resident memory of a process. */
function peakResidentBytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1] ?? Number.NaN) * 1024;
}

test('20 concurrent uploads of 25 MB need less than 400 MB of memory', async () => {
  const upstream = await startFakeUpstreamProcess();
  await upstream.script('ears', transcription('Hello', 2));
  const config = {
    demo: false,
    catalogue: 'none',
    providers: {
      fake: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-test-key' },
    },
    models: [
      {
        id: 'test/ears',
        name: 'Ears',
        input_modalities: ['audio'],
        output_modalities: ['text'],
        features: ['transcription'],
        endpoints: [{ provider: 'fake', model: 'ears', pricing: { minute: '0.003' } }],
      },
    ],
  };
  // If it takes too long to read a recording's length, credits are held for the maximum length.
  const env = { TOLLGATE_BOOTSTRAP_CREDITS: '1000000000' };
  const dataDir = newFolder();
  const folder = join(dataDir, 'uploads');
  mkdirSync(folder);
  // This simulates a file that a killed gateway left behind.
  writeFileSync(join(folder, 'orphan'), '');
  await using gateway = await startGateway({ config, env, dataDir });
  const bytes = new Uint8Array(25 * megabyte);
  bytes.set(wavHeader(1));
  const file = new File([bytes], 'long.wav');
  const send = async () => {
    const form = new FormData();
    form.append('model', 'test/ears');
    form.append('file', file);
    const headers = { authorization: `Bearer ${gateway.keys.api}` };
    const init = { method: 'POST', headers, body: form };
    const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, init);
    return [response.status, await response.json()];
  };
  const answers = await Promise.all(Array.from({ length: uploads }, send));
  for (const answer of answers) expect(answer).toMatchObject([200, { text: 'Hello', duration: 2 }]);
  const book = await upstream.summary();
  expect(book.byStatus).toEqual({ 200: uploads });
  expect(peakResidentBytes(gateway.process.pid)).toBeLessThan(400 * megabyte);
  expect(readdirSync(folder)).toEqual([]);
  await upstream.stop();
}, 240_000);
