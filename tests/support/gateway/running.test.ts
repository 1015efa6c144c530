import { expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { chatAnswer, gated, startFakeUpstream, words } from '../fake-upstream.ts';
import { newFolder, run, startGateway } from '../gateway.ts';
import { waitUntil } from '../wait-until.ts';

const startMs = 120_000;

test(
  'stop rejects for a gateway that exited without being stopped',
  async () => {
    const gateway = await startGateway();
    process.kill(gateway.process.pid, 'SIGKILL');
    await gateway.finished;
    await expect(gateway.stop()).rejects.toThrow('exited without being stopped');
  },
  startMs,
);

test(
  'stop sends no second signal to a gateway that is draining',
  async () => {
    const upstream = startFakeUpstream();
    upstream.script('chat', gated('the rest', 3, chatAnswer(words(12))));
    const upstreams = { fake: { url: upstream.url, models: { 'test/chat': {} } } };
    const gateway = await startGateway({ upstreams });
    const messages = [{ role: 'user', content: 'Go on.' }];
    const stream = await gateway.stream({ model: 'test/chat', messages });
    await stream.read(1);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');
    const stopped = gateway.stop();
    upstream.open('the rest');
    expect(await stream.read()).toBe(words(12));
    expect(await stopped).toBe(0);
    upstream.stop();
  },
  startMs,
);

test(
  'startGateway rejects with the reason if the gateway cannot start',
  async () => {
    await expect(startGateway({ config: { demo: 'maybe' } })).rejects.toThrow('demo must be');
  },
  startMs,
);

test(
  'kill9 does not count as a failure, and another gateway can use the data',
  async () => {
    const gateway = await startGateway();
    await gateway.kill9();
    await using next = await gateway.another();
    expect(await next.balance()).toBe(10_000_000);
  },
  startMs,
);

test(
  'a gateway has none of the environment variables of this machine',
  async () => {
    process.env.OPENAI_API_KEY = 'sk-from-this-machine';
    const { exitCode, stdout } = await run(['models', '--json']);
    delete process.env.OPENAI_API_KEY;
    expect(exitCode).toBe(0);
    // Without a key, only the demo's models are available.
    const { data }: { data: { providers: string[] }[] } = JSON.parse(stdout);
    expect(data.length).toBeGreaterThan(0);
    expect([...new Set(data.flatMap(({ providers }) => providers))]).toEqual(['demo']);
  },
  startMs,
);

test(
  'gateways and folders are removed when the test process is killed',
  async () => {
    const script = `
      const { startGateway } = await import('${import.meta.dir}/../gateway.ts');
      const gateway = await startGateway();
      process.stdout.write(gateway.url + ' ' + gateway.folder);
      process.kill(process.pid, 'SIGKILL');`;
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', cwd: newFolder() });
    const [url = '', folder = ''] = (await new Response(child.stdout).text()).split(' ');
    expect(url).toStartWith('http://127.0.0.1:');
    // Nothing reports when the other process's shell has finished.
    await waitUntil(() => !existsSync(folder), { everyMs: 20 });
    await expect(fetch(url)).rejects.toThrow();
  },
  startMs,
);
