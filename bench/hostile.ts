/**
 * Attacks a gateway and prints for each attack how long the event loop was blocked, the latency of
 * another tenant before and during the attack, and the memory. Run it with `bun bench/hostile.ts`,
 * or with words from the names of scenarios to run only those. It takes about 4 minutes and needs
 * Linux.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BystanderResult } from './bystander.ts';
import { adminToken, clientKey, managerKey, Processes, residentMegabytes } from './processes.ts';

const calmMs = 3_000;
const attackMs = 6_000;
const samplingMs = 50;

interface Target {
  readonly url: string;
  readonly upstreamUrl: string;
  /** Aborts when the attack ends. */
  readonly signal: AbortSignal;
}

interface Scenario {
  readonly name: string;
  /** The number of clients that share the memory. Prints the memory per client if set. */
  readonly clients?: number;
  attack(target: Target): Promise<void>;
}

const times = <T>(count: number, make: (n: number) => T) =>
  Array.from({ length: count }, (_, n) => make(n));

const chat = (model: string, content: unknown, more: object = {}) =>
  JSON.stringify({ model: `bench/${model}`, messages: [{ role: 'user', content }], ...more });

const speech = (more: object) =>
  JSON.stringify({ model: 'bench/voice', input: 'Hi.', voice: 'alloy', ...more });

/** Sends a request, and reads and discards the answer. */
async function post({ url, signal }: Target, path: string, body: string, key = clientKey) {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
  const response = await fetch(url + path, { method: 'POST', headers, body, signal });
  for await (const _ of response.body ?? []);
}

/** Repeats a call until the attack ends. Failures are expected. */
async function repeat({ signal }: Target, call: () => Promise<unknown>): Promise<void> {
  while (!signal.aborted) await call().catch(() => undefined);
}

/** Sends a request and never reads its answer. */
function neverRead({ url, signal }: Target, path: string, body: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname, () => {
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ${clientKey}\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    socket.pause();
  });
  socket.on('error', () => undefined);
  signal.addEventListener('abort', () => socket.destroy());
  return socket;
}

const untilEnd = ({ signal }: Target) => once(signal, 'abort');

const noiseScenario = (name: string, model: string): Scenario => ({
  name: `1  ${name}`,
  attack: async (target) => {
    const body = chat(model, 'Hi.', { stream: true, max_tokens: 1_000_000 });
    const readOne = () => repeat(target, () => post(target, '/v1/chat/completions', body));
    await Promise.all(times(4, readOne));
  },
});

const neverReadScenario = (name: string, path: string, body: string): Scenario => ({
  name: `2  200 clients that never read ${name}`,
  clients: 200,
  attack: async (target) => {
    times(200, () => neverRead(target, path, body));
    await untilEnd(target);
  },
});

const silentHosts = (name: string) =>
  times(16, (n) => ({ type: 'image_url', image_url: { url: `http://${name}-${n}.example/` } }));

const scenarios: readonly Scenario[] = [
  noiseScenario('streams of empty lines', 'empty-lines'),
  noiseScenario('streams of carriage returns', 'returns'),
  noiseScenario('streams of comments', 'comments'),
  noiseScenario('streams of data:{}', 'empty-objects'),
  noiseScenario('streams of split events', 'split-events'),
  noiseScenario('streams of letters', 'letters'),
  neverReadScenario('text', '/v1/chat/completions', chat('words', 'Hi.', { stream: true })),
  neverReadScenario('audio', '/v1/audio/speech', speech({})),
  {
    name: '2  24 bodies of 20 MB',
    attack: async (target) => {
      const body = chat('chat', 'x'.repeat(20_000_000));
      const send = () => post(target, '/v1/chat/completions', body);
      await Promise.allSettled(times(24, send));
    },
  },
  {
    name: '4  names that never resolve',
    attack: async (target) => {
      const send = (n: number) =>
        repeat(target, () =>
          post(target, '/v1/chat/completions', chat('inline', silentHosts(`host-${n}`))),
        );
      await Promise.all(times(20, send));
    },
  },
  {
    name: '4  webhooks and base URLs',
    attack: async (target) => {
      const { url, signal } = target;
      const headers = { authorization: `Bearer ${managerKey}` };
      const saveKey = (n: number) => {
        const base_url = `http://base-${n}.example/v1`;
        const body = JSON.stringify({ api_key: 'sk-own-01234567', base_url });
        return fetch(`${url}/api/v1/byok/vendor`, { method: 'PUT', headers, body, signal });
      };
      const createJob = (n: number) =>
        post(target, '/v1/jobs', speech({ webhook_url: `http://hook-${n}.example/` }));
      await Promise.all([
        ...times(10, (n) => repeat(target, () => saveKey(n))),
        ...times(10, (n) => repeat(target, () => createJob(n))),
      ]);
    },
  },
  {
    name: '5  12 images of 24 MB',
    attack: async (target) => {
      const image_url = { url: `${target.upstreamUrl}/image.png` };
      const body = chat('inline', [{ type: 'image_url', image_url }]);
      const send = () => repeat(target, () => post(target, '/v1/chat/completions', body));
      await Promise.all(times(12, send));
    },
  },
  {
    name: '5  12 generated images of 24 MB',
    attack: async (target) => {
      const body = JSON.stringify({ model: 'bench/drawing', prompt: 'A cat.' });
      const send = () => repeat(target, () => post(target, '/v1/images/generations', body));
      await Promise.all(times(12, send));
    },
  },
  {
    name: '7  unknown routes, 64 connections',
    attack: async (target) => {
      const path = '/a'.repeat(2_000);
      await Promise.all(times(64, () => repeat(target, () => post(target, path, '{}'))));
    },
  },
  {
    name: '8  model lists, 16 connections',
    attack: async ({ url, signal }) => {
      const headers = { authorization: `Bearer ${clientKey}` };
      const list = async () => (await fetch(`${url}/v1/models`, { headers, signal })).text();
      await Promise.all(times(16, () => repeat({ url, signal, upstreamUrl: '' }, list)));
    },
  },
  {
    name: '8  new and deleted keys',
    attack: async (target) => {
      const headers = { authorization: `Bearer ${managerKey}` };
      const keys = `${target.url}/api/v1/keys`;
      const createAndDelete = async () => {
        const body = JSON.stringify({ name: 'bench' });
        const created = await fetch(keys, { method: 'POST', headers, body, signal: target.signal });
        const { data } = (await created.json()) as { data: { id: string } };
        await fetch(`${keys}/${data.id}`, { method: 'DELETE', headers, signal: target.signal });
      };
      await Promise.all(times(8, () => repeat(target, createAndDelete)));
    },
  },
];

const upstreamModels = ['chat', 'inline', 'words', 'letters', 'empty-lines', 'returns'];
const pricing = { prompt: '0.15', completion: '0.60' };

function configFor(upstreamUrl: string): object {
  const vendor = { dialect: 'openai', base_url: `${upstreamUrl}/v1`, api_key: 'sk-bench-01234567' };
  const models = [...upstreamModels, 'comments', 'empty-objects', 'split-events'];
  return {
    private_addresses: ['127.0.0.1'],
    providers: {
      vendor: { ...vendor, byok_base_url: true },
      'vendor-inline': { ...vendor, quirks: { remote_images: 'inline' } },
    },
    limits: { requests_per_minute: 10 ** 9, concurrent_requests: 10 ** 6, body_bytes: 21_000_000 },
    models: [
      ...models.map((model) => ({
        id: `bench/${model}`,
        name: model,
        context_length: 10_000_000,
        input_modalities: ['text', 'image'],
        output_modalities: ['text'],
        endpoints: [{ provider: model === 'inline' ? 'vendor-inline' : 'vendor', model, pricing }],
      })),
      {
        id: 'bench/voice',
        name: 'voice',
        input_modalities: ['text'],
        output_modalities: ['audio'],
        features: ['speech'],
        speech: {
          style: 'mapped',
          voices: { alloy: 'alloy' },
          default_voice: 'alloy',
          input_characters_max: 4_096,
          input_bytes_max: 16_384,
          instructions: false,
          reports_usage: false,
        },
        endpoints: [{ provider: 'vendor', model: 'voice', pricing: { characters: '15' } }],
      },
      {
        id: 'bench/drawing',
        name: 'drawing',
        input_modalities: ['text'],
        output_modalities: ['image'],
        features: ['image_generation'],
        endpoints: [{ provider: 'vendor', model: 'drawing', pricing: { output_image: '0.04' } }],
      },
    ],
  };
}

/** Creates a tenant for the bystander, so that no limit is shared, and returns its key. */
async function createBystanderKey(url: string): Promise<string> {
  const send = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${adminToken}` };
    const options = { method: 'POST', headers, body: JSON.stringify(body) };
    const response = await fetch(`${url}/admin/v1/tenants${path}`, options);
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { key: string };
  };
  await send('', { id: 'bystander', name: 'Bystander' });
  await send('/bystander/credits', { amount: 10 ** 12, note: 'bench', idempotency_key: 'bench' });
  return (await send('/bystander/keys', { name: 'bench' })).key;
}

interface Bystander {
  /** Returns the result since the last call. */
  take(): Promise<BystanderResult>;
  stop(): void;
}

function startBystander(url: string, key: string): Bystander {
  let onResult: (result: BystanderResult) => void = () => {};
  const args = [`${url}/v1/chat/completions`, key, chat('chat', 'Hi.')];
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'bystander.ts'), ...args], {
    stdout: 'inherit',
    stderr: 'inherit',
    ipc: (result: BystanderResult) => onResult(result),
  });
  return {
    take() {
      const { promise, resolve } = Promise.withResolvers<BystanderResult>();
      onResult = resolve;
      child.send('take');
      return promise;
    },
    stop: () => child.kill('SIGKILL'),
  };
}

const print = (...cells: readonly string[]) =>
  process.stdout.write(
    `${cells.map((cell, index) => (index === 0 ? cell.padEnd(36) : cell.padStart(15))).join('')}\n`,
  );

const stallFile = join(tmpdir(), `tollgate-stall-${process.pid}.json`);

async function measure(scenario: Scenario, nameServer: string): Promise<void> {
  const processes = new Processes();
  let bystander: Bystander | undefined;
  try {
    const upstream = await processes.serve('upstream', 'bench/hostile-upstream.ts');
    const gateway = await processes.gateway(upstream, 'tollgate', 'bench/monitored-gateway.ts', {
      config: configFor(upstream.url),
      environment: { BENCH_STALL_FILE: stallFile, BENCH_NAME_SERVER: nameServer },
    });
    bystander = startBystander(gateway.url, await createBystanderKey(gateway.url));
    // The first requests are slower.
    await Bun.sleep(calmMs);
    await bystander.take();
    await Bun.sleep(calmMs);
    const before = await bystander.take();
    const residentBefore = residentMegabytes(gateway.pid);
    let residentPeak = residentBefore;
    process.kill(gateway.pid, 'SIGUSR2');
    const sampler = setInterval(() => {
      residentPeak = Math.max(residentPeak, residentMegabytes(gateway.pid));
    }, samplingMs);
    const controller = new AbortController();
    const { signal } = controller;
    const attack = scenario.attack({ url: gateway.url, upstreamUrl: upstream.url, signal });
    await Bun.sleep(attackMs);
    controller.abort();
    await attack.catch(() => undefined);
    clearInterval(sampler);
    const during = await bystander.take();
    const { stallMs, cpuMs } = JSON.parse(readFileSync(stallFile, 'utf8'));
    const { clients } = scenario;
    const perClient = clients
      ? `${(((residentPeak - residentBefore) * 1024) / clients).toFixed(0)} KB each`
      : '';
    print(
      scenario.name,
      `${stallMs.toFixed(0)} (${cpuMs.toFixed(0)}) ms`,
      `${before.p50Ms.toFixed(1)} / ${before.p99Ms.toFixed(0)} ms`,
      `${during.p50Ms.toFixed(1)} / ${during.p99Ms.toFixed(0)} ms`,
      `${during.failed} of ${during.requests}`,
      `${residentBefore.toFixed(0)} MB`,
      `${residentPeak.toFixed(0)} MB`,
      perClient,
    );
  } finally {
    bystander?.stop();
    await processes.stop();
    rmSync(stallFile, { force: true });
  }
}

/** A name server that never responds. */
const silent = createSocket('udp4').bind(0, '127.0.0.1');
await once(silent, 'listening');
const words = process.argv.slice(2);
print('attack', 'stall (CPU)', 'p50/p99 before', 'p50/p99 during', 'failed', 'before', 'peak');
for (const scenario of scenarios) {
  const isChosen = words.length === 0 || words.some((word) => scenario.name.includes(word));
  if (isChosen) await measure(scenario, `127.0.0.1:${silent.address().port}`);
}
silent.close();
