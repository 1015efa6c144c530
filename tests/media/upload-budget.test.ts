/** The disk budget for uploads of running requests. */
import { afterEach, expect, mock, spyOn, test } from 'bun:test';
import { UploadFolder, uploadBytesMax } from '../../src/store/uploads.ts';
import { wavFile } from '../support/audio-files.ts';
import { json, startFakeUpstream } from '../support/fake-upstream.ts';
import { InProcessGateway, readReply } from '../support/in-process.ts';

afterEach(() => mock.restore());

const transcriptionModel = {
  id: 'test/ears',
  name: 'Ears',
  input_modalities: ['audio'],
  output_modalities: ['text'],
  features: ['transcription'],
  endpoints: [{ provider: 'openai', model: 'ears', pricing: { minute: '0.006' } }],
};

test('the disk budget keeps its reservations across a reload', async () => {
  const upstream = startFakeUpstream();
  upstream.script('ears', json(200, { text: 'One two.', duration: 1 }));
  const spy = spyOn(UploadFolder.prototype, 'uploadsFor');
  const openai = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream' };
  const gateway = await InProcessGateway.start({
    providers: { openai },
    models: [transcriptionModel],
  });
  const transcribe = async () => {
    const body = new FormData();
    body.append('model', 'test/ears');
    body.append('file', new File([wavFile(1) as Uint8Array<ArrayBuffer>], 'talk.wav'));
    const headers = { authorization: `Bearer ${gateway.keys.routing}` };
    const url = `${gateway.url}/v1/audio/transcriptions`;
    return readReply(await fetch(url, { method: 'POST', headers, body }));
  };
  expect((await transcribe()).json.text).toBe('One two.');

  // Each tenant may reserve half of the remaining budget, so almost nothing is left in the end.
  const [folder] = spy.mock.contexts as UploadFolder[];
  for (let free = uploadBytesMax, tenant = 0; free > 1; free -= free / 2, tenant += 1) {
    folder?.budget.reserve(`tenant ${tenant}`, free / 2);
  }
  expect((await transcribe()).status).toBe(503);
  gateway.reload();
  expect((await transcribe()).status).toBe(503);
  await gateway.stop();
  await upstream.stop();
});
