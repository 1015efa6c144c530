/** Creating a job doesn't call the provider, so only its pieces can probe an open circuit. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { AdvancedClock } from '../support/advanced-clock.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { speech as speechAnswer, status500 } from '../support/fake-upstream.ts';
import { waitUntil } from '../support/wait-until.ts';

let audio: AudioGateway;

beforeAll(async () => {
  audio = await AudioGateway.start();
});
afterAll(() => audio.stop());

const speech = { model: 'openai/tts-1', input: 'Hello.', voice: 'alloy', response_format: 'pcm' };

/** Returns the state of the circuit at the first provider. */
async function circuit(): Promise<string | undefined> {
  const { keys } = audio.gateway;
  const { text } = await audio.gateway.get('/admin/v1/providers', { key: keys.admin });
  return /"upstream_model":"tts-1",.*?"circuit":"(\w+)"/.exec(text)?.[1];
}

test('a piece of a job, not its creation, probes a recovering provider', async () => {
  using clock = new AdvancedClock();
  const { openai, siliconflow, gateway } = audio;
  siliconflow.script('FunAudioLLM/CosyVoice2-0.5B', speechAnswer());
  openai.script('tts-1', status500());
  for (let n = 0; n < 5; n++) expect((await audio.speak(speech)).status).toBe(200);
  expect(await circuit()).toBe('open');
  clock.advance(5_000);
  expect(await circuit()).toBe('half_open');

  openai.script('tts-1', speechAnswer());
  const { json } = await gateway.post(speech, { path: '/v1/jobs' });
  const job = async () => (await gateway.get(`/v1/jobs/${json.id}`)).json;
  await waitUntil(async () => (await job()).completed_at !== null);
  expect(await job()).toMatchObject({ status: 'succeeded' });
  expect([openai.requests.length, siliconflow.requests.length]).toEqual([6, 5]);
  expect(await circuit()).toBe('closed');
}, 120_000);
