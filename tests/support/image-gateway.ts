/** A gateway with all kinds of image models, served by one fake upstream. */
import { expect } from 'bun:test';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import { type FakeUpstream, startFakeUpstream } from './fake-upstream.ts';
import { opaquePng } from './images.ts';
import { InProcessGateway, type Reply, readReply } from './in-process.ts';

export let upstream: FakeUpstream;
export let gateway: InProcessGateway;

/** Starts the gateway of a test file. Call this in `beforeAll`. */
export async function startImageGateway(): Promise<void> {
  upstream = startFakeUpstream();
  const at = (dialect: string, base: string, more: object = {}) => ({
    dialect,
    base_url: upstream.url + base,
    api_key: 'sk-theirs-0123456789',
    ...more,
  });
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      first: at('openai', '/v1'),
      second: at('openai', '/second/v1'),
      hasty: at('openai', '/v1', { timeout_ms: 100, idle_timeout_ms: 100 }),
      odd: at('openai', '/v1', { quirks: { drop_params: ['quality'] } }),
      google: at('gemini', '/v1beta'),
      silicon: at('siliconflow', '/v1'),
    },
    models: [
      model('test/image', [endpoint('first', 'gpt-image', tokenPrices)]),
      model('test/flat', [endpoint('first', 'flat-image', flatPrices)]),
      model('test/both', [
        endpoint('first', 'both-image', { ...tokenPrices, image: '0.001', output_image: '0.002' }),
      ]),
      model('test/hasty', [endpoint('hasty', 'slow-image', flatPrices)]),
      model('test/odd', [endpoint('odd', 'odd-image', flatPrices)]),
      model('test/spare', [
        endpoint('first', 'bad-image', flatPrices),
        { ...endpoint('second', 'good-image', flatPrices), priority: 1 },
      ]),
      model('test/gemini', [endpoint('google', 'gemini-image', tokenPrices)], {
        output_modalities: ['text', 'image'],
      }),
      model('test/kontext', [endpoint('silicon', 'kontext-dev', flatPrices)]),
      model('test/kontext-pro', [
        {
          ...endpoint('silicon', 'kontext-pro', flatPrices),
          quirks: { rename_params: { image: 'input_image', image2: 'input_image_2' } },
        },
      ]),
      model('test/words', [endpoint('first', 'words', tokenPrices)], {
        input_modalities: ['text'],
        features: ['image_generation'],
      }),
      model('test/blind', [endpoint('first', 'blind', flatPrices)], { input_modalities: ['text'] }),
      model('test/edits', [endpoint('first', 'edits', flatPrices)], { features: ['image_edit'] }),
    ],
  });
}

export async function stopImageGateway(): Promise<void> {
  await gateway.stop();
  upstream.stop();
}

/** 2 credits per input token and 4 per output token. */
const tokenPrices = { prompt: '2', completion: '4' };
const flatPrices = { output_image: '0.04' };

function endpoint(provider: string, name: string, pricing: object): object {
  return { provider, model: name, priority: 0, pricing };
}

function model(id: string, endpoints: readonly object[], more: object = {}): object {
  return {
    id,
    name: id,
    input_modalities: ['text', 'image'],
    output_modalities: ['image'],
    features: ['image_edit', 'image_generation'],
    endpoints,
    ...more,
  };
}

export const sourceImage = opaquePng(4, 3);
export const halfMask = ['##..', '##..', '####'];

export type Parts = Readonly<Record<string, string | Uint8Array | readonly Uint8Array[]>>;

export function formOf(parts: Parts): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(parts)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (typeof item === 'string') form.append(name, item);
      else form.append(name, new File([item as Uint8Array<ArrayBuffer>], 'of client.bin'));
    }
  }
  return form;
}

export async function send(
  body: FormData | string,
  headers: Record<string, string> = {},
  key?: string,
) {
  const authorization = `Bearer ${key ?? gateway.keys.routing}`;
  const init = { method: 'POST', headers: { authorization, ...headers }, body };
  return readReply(await fetch(`${gateway.url}/v1/images/edits`, init));
}

export const edit = (parts: Parts) =>
  send(formOf({ model: 'test/image', prompt: 'make it green', image: sourceImage, ...parts }));
export const generate = (body: object) => gateway.post(body, { path: '/v1/images/generations' });

export const fixture = (name: string) =>
  readFileSync(join(import.meta.dir, '../../fixtures', name), 'utf8');

export const onePixel = String(
  JSON.parse(fixture('openai/image-edit-gpt-image-2-size.json')).data[0].b64_json,
);

export function imageOf(reply: Reply): Record<string, unknown> {
  expect([reply.status, reply.error]).toEqual([200, {}]);
  const data: unknown[] = Array.isArray(reply.json.data) ? reply.json.data : [];
  expect(data).toHaveLength(1);
  return isObject(data[0]) ? data[0] : {};
}

export const form = (at = 0) => {
  const { form: found } = upstream.requests[at] ?? {};
  if (!found) throw new Error('The upstream received no form.');
  return found;
};
export const sentBody = (at = 0): Record<string, unknown> => {
  const body = upstream.requests[at]?.json;
  return isObject(body) ? body : {};
};

export async function chargeOf({ requestId }: Reply) {
  const { charges, usage, usageEstimated, operation } = await gateway.record(requestId);
  const { inputTokens, outputTokens } = usage;
  const tokens = [inputTokens, outputTokens];
  return { credits: charges.modelCharge, tokens, estimated: usageEstimated, operation };
}

/** Returns the uploads on disk: files with a name, and open files that are unlinked. */
export function uploadsOnDisk(): string[] {
  const folder = join(gateway.folder, 'uploads');
  const named = existsSync(folder) ? readdirSync(folder) : [];
  const open = readdirSync('/proc/self/fd').map((handle) => {
    try {
      return readlinkSync(`/proc/self/fd/${handle}`);
    } catch {
      // The handle that read this folder is already closed.
      return '';
    }
  });
  return [...named, ...open.filter((path) => path.startsWith(folder))];
}
