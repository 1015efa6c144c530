/** The room that the files of running requests have on the disk, together. */
import { afterEach, expect, mock, spyOn, test } from 'bun:test';
import { UploadFolder, uploadBytesMax } from '../../src/store/uploads.ts';
import { wavFile } from '../support/audio-files.ts';
import { json, startFakeUpstream } from '../support/fake-upstream.ts';
import { InProcessGateway, readReply } from '../support/in-process.ts';

afterEach(() => mock.restore());

const ears = {
  id: 'test/ears',
  name: 'Ears',
  input_modalities: ['audio'],
  output_modalities: ['text'],
  features: ['transcription'],
  endpoints: [{ provider: 'openai', model: 'ears', pricing: { minute: '0.006' } }],
};

test('files that came before a reload take as much of it afterwards', async () => {
  const upstream = startFakeUpstream();
  upstream.script('ears', json(200, { text: 'One two.', duration: 1 }));
  const trays = spyOn(UploadFolder.prototype, 'uploadsFor');
  const openai = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream' };
  const gateway = await InProcessGateway.start({ providers: { openai }, models: [ears] });
  const transcribe = async () => {
    const body = new FormData();
    body.append('model', 'test/ears');
    body.append('file', new File([wavFile(1) as Uint8Array<ArrayBuffer>], 'talk.wav'));
    const headers = { authorization: `Bearer ${gateway.keys.routing}` };
    const url = `${gateway.url}/v1/audio/transcriptions`;
    return readReply(await fetch(url, { method: 'POST', headers, body }));
  };
  expect((await transcribe()).json.text).toBe('One two.');

  // Each tenant may take half of what is left, so these leave next to nothing.
  const [folder] = trays.mock.contexts as UploadFolder[];
  for (let left = uploadBytesMax, tenant = 0; left > 1; left -= left / 2, tenant += 1) {
    folder?.budget.reserve(`tenant ${tenant}`, left / 2);
  }
  expect((await transcribe()).status).toBe(503);
  gateway.reload();
  expect((await transcribe()).status).toBe(503);
  await gateway.stop();
  await upstream.stop();
});
