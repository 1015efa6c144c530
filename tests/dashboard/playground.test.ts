import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser, Locator } from 'playwright-core';
import { isObject } from '../../src/core/json.ts';
import { desktop, openBrowser, Tab } from '../support/browser.ts';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  type FakeUpstream,
  hangMidStream,
  type LoggedRequest,
  startFakeUpstream,
  status,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;
const arabic = 'مرحبا بالعالم.';

let upstream: FakeUpstream;
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  upstream = startFakeUpstream();
  upstream.script('cut', cutMidStream(5));
  upstream.script('silent', hangMidStream(5));
  upstream.script('arabic', chatAnswer(arabic));
  upstream.script('rejecting', [status(400), status(400), chatAnswer('Yes.')]);
  const look = callTools([{ name: 'look', arguments: {}, id: 'call_1' }]);
  upstream.script('calling', [look, status(400), chatAnswer('Rain.')]);
  const names = ['cut', 'silent', 'arabic', 'rejecting', 'calling'];
  upstream.script('seeing', chatAnswer('I see.'));
  const seeing = { model: { input_modalities: ['text', 'image'] } };
  const models = {
    ...Object.fromEntries(names.map((name) => [`test/${name}`, {}])),
    'test/seeing': seeing,
  };
  gateway = await startGateway({ upstreams: { fake: { url: upstream.url, models } } });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream?.stop();
});

const open = () => Tab.open(browser, { theme: 'light', size: desktop });

async function send({ page }: Tab, text: string): Promise<Locator> {
  await page.getByLabel('Your message').fill(text);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  const costs = page.locator('.costs');
  await costs.getByText('first token').waitFor();
  return costs;
}

test(
  'an interrupted answer is marked as incomplete and links to its receipt',
  async () => {
    await using tab = await open();
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/cut');
    const costs = await send(tab, 'Hi');
    await costs.getByText('incomplete').waitFor();
    await costs.getByRole('link', { name: 'Receipt' }).click();
    const receipt = tab.page.getByRole('dialog', { name: 'Receipt' });
    await receipt
      .getByText('The answer was cut off. The part that was received is charged.')
      .waitFor();
  },
  timeoutMs,
);

test(
  'an answer is marked as incomplete once it is stopped, but not while it is streaming',
  async () => {
    await using tab = await open();
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/silent');
    const costs = await send(tab, 'Hi');
    const receipt = costs.getByRole('link', { name: 'Receipt' });
    expect([await receipt.count(), await costs.getByText('incomplete').count()]).toEqual([0, 0]);
    await tab.page.getByRole('button', { name: 'Stop' }).click();
    await costs.getByText('incomplete').waitFor();
    expect(await receipt.getAttribute('href')).toMatch(/\?request=[0-9a-f-]{36}$/);
    expect(await tab.accessibilityViolations()).toEqual([]);
  },
  timeoutMs,
);

test(
  'a rejected message can be retried, and is excluded from later requests',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/rejecting');
    const message = page.getByLabel('Your message');
    await message.fill('Too much');
    await message.press('Enter');
    await page.getByRole('button', { name: 'Try again' }).click();
    const received = () => upstream.requests.filter(({ model }) => model === 'rejecting');
    await upstream.until(() => received().length === 2);
    await page.locator('.turn.user').getByText('excluded').waitFor();
    await send(tab, 'Less');
    const content = ({ json }: LoggedRequest) => isObject(json) && json.messages;
    expect(received().map(content)).toEqual([
      [{ role: 'user', content: 'Too much' }],
      [{ role: 'user', content: 'Too much' }],
      [{ role: 'user', content: 'Less' }],
    ]);
    expect(await tab.accessibilityViolations()).toEqual([]);
  },
  timeoutMs,
);

test(
  'a tool call still accepts its result after another message was rejected',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/calling&tools=1');
    await send(tab, 'Weather?');
    const message = page.getByLabel('Your message');
    await message.fill('Well?');
    await message.press('Enter');
    await page.locator('.turn.user').getByText('excluded').waitFor();
    await page.getByLabel('Result of look').fill('wet');
    await page.getByRole('button', { name: 'Send result' }).click();
    await page.locator('.message-text').getByText('Rain.').waitFor();
    const { json } = upstream.requests.at(-1) ?? {};
    expect(json).toMatchObject({
      messages: [
        { role: 'user', content: 'Weather?' },
        { role: 'assistant', tool_calls: [{ id: 'call_1' }] },
        { role: 'tool', tool_call_id: 'call_1', content: 'wet' },
      ],
    });
  },
  timeoutMs,
);

interface Positions {
  readonly first: number;
  readonly last: number;
  readonly left: number;
  readonly right: number;
}

/** Returns the centers of the first and last character, and the edges of their element. */
const positionsIn = ({ page }: Tab, selector: string) =>
  page.evaluate(`(() => {
    const element = document.querySelector('${selector}');
    const [node] = element.childNodes;
    const center = (at) => {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const { left, right } = range.getBoundingClientRect();
      return (left + right) / 2;
    };
    const { left, right } = element.getBoundingClientRect();
    return { first: center(0), last: center(node.length - 1), left, right };
  })()`) as Promise<Positions>;

test(
  'an Arabic answer is laid out from right to left',
  async () => {
    await using tab = await open();
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/arabic');
    await send(tab, 'Hi');
    const { first, last } = await positionsIn(tab, '.assistant .message-text');
    expect(last).toBeLessThan(first);
  },
  timeoutMs,
);

test(
  'the log shows the beginning of a long Arabic key name',
  async () => {
    const body = { name: 'مفتاح التطبيق العربي الطويل جدا للاختبار والمراقبة والفوترة' };
    const created = await gateway.manage('POST', '/api/v1/keys', body);
    const request = { model: 'test/arabic', messages: [{ role: 'user', content: 'Hi' }] };
    const key = String(created.body.key);
    expect((await gateway.chat(request, { key })).status).toBe(200);
    await using tab = await open();
    await tab.signIn(gateway.url, key, '/logs');
    await tab.page.locator('.key-name', { hasText: 'مفتاح' }).waitFor();
    const { first, last, left, right } = await positionsIn(tab, '.key-name');
    expect(first).toBeWithin(left, right);
    // The end of the name is cut off.
    expect(last).toBeLessThan(left);
  },
  timeoutMs,
);

test(
  'the page scrolls to the end of a conversation unless the user scrolled away',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/arabic');
    const message = page.getByLabel('Your message');
    const lines = 'line\n'.repeat(desktop.height / 20);
    for (const answers of [1, 2]) {
      await message.fill(lines);
      await message.press('Enter');
      await page
        .getByRole('link', { name: 'Receipt' })
        .nth(answers - 1)
        .waitFor();
      const box = await message.boundingBox();
      expect(box && box.y + box.height).toBeLessThan(desktop.height);
    }
    // Scrolls up by one notch of a mouse wheel, or farther.
    const steps = [
      [2, 40],
      [3, 400],
    ] as const;
    for (const [answers, up] of steps) {
      await message.fill('Hi');
      const position = await page.evaluate(`new Promise((resolve) => {
        const position = Math.round(scrollY) - ${up};
        addEventListener('scroll', () => scrollY === position && resolve(position));
        scrollTo(0, position);
      })`);
      await page.keyboard.press('Enter');
      await page.getByRole('link', { name: 'Receipt' }).nth(answers).waitFor();
      expect(await page.evaluate('scrollY')).toBe(position);
    }
  },
  timeoutMs,
);

test(
  'attached images that exceed the request limit are rejected, and previews are released',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/seeing');
    await page.evaluate(`{
      const { createObjectURL: create, revokeObjectURL: revoke } = URL;
      globalThis.previews = new Set();
      URL.createObjectURL = (file) => {
        const url = create.call(URL, file);
        previews.add(url);
        return url;
      };
      URL.revokeObjectURL = (url) => {
        previews.delete(url);
        revoke.call(URL, url);
      };
    }`);
    const image = (name: string, megabytes: number) => ({
      name: `${name}.png`,
      mimeType: 'image/png',
      buffer: Buffer.alloc(megabytes * 1024 * 1024),
    });
    const attach = page.getByLabel('Images to attach');
    await attach.setInputFiles([image('a', 5), image('b', 5)]);
    await page.getByRole('img', { name: 'b.png' }).waitFor();
    await attach.setInputFiles([image('c', 5)]);
    await page
      .getByText('The images are 15.0 MB in total. The limit is 14 MB per request.')
      .waitFor();
    expect(await page.locator('.attachments img').count()).toBe(2);
    await attach.setInputFiles([image('d', 4)]);
    await page.getByRole('img', { name: 'd.png' }).waitFor();
    // The gateway accepts what the form allowed.
    await send(tab, 'And these?');
    expect(upstream.requests.filter(({ model }) => model === 'seeing')).toHaveLength(1);
    // Each message is sent with all earlier ones.
    await attach.setInputFiles([image('e', 1)]);
    await page.getByText('The images of this conversation are 15.0 MB in total.').waitFor();
    expect(await page.locator('.attachments img').count()).toBe(0);
    expect(await page.evaluate('previews.size')).toBe(0);
  },
  timeoutMs,
);
