import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser, Locator } from 'playwright-core';
import { isObject } from '../../src/core/json.ts';
import { desk, openBrowser, Tab } from '../support/browser.ts';
import {
  type LoggedRequest,
  callTools,
  cutMidStream,
  type FakeUpstream,
  hangMidStream,
  chatAnswer,
  startFakeUpstream,
  status,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

/** Answers that end too soon, and words that are read from the right. */

const patienceMs = 120_000;
const arabic = 'مرحبا بالعالم.';

let upstream: FakeUpstream;
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  upstream = startFakeUpstream();
  upstream.script('cut', cutMidStream(5));
  upstream.script('silent', hangMidStream(5));
  upstream.script('arabic', chatAnswer(arabic));
  upstream.script('picky', [status(400), status(400), chatAnswer('Yes.')]);
  const look = callTools([{ name: 'look', arguments: {}, id: 'call_1' }]);
  upstream.script('calling', [look, status(400), chatAnswer('Rain.')]);
  const names = ['cut', 'silent', 'arabic', 'picky', 'calling'];
  upstream.script('seeing', chatAnswer('I see.'));
  const seeing = { model: { input_modalities: ['text', 'image'] } };
  const models = {
    ...Object.fromEntries(names.map((name) => [`test/${name}`, {}])),
    'test/seeing': seeing,
  };
  gateway = await startGateway({ upstreams: { fake: { url: upstream.url, models } } });
  browser = await openBrowser();
}, patienceMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream?.stop();
});

const open = () => Tab.open(browser, { theme: 'light', size: desk });

async function ask({ page }: Tab, text: string): Promise<Locator> {
  await page.getByLabel('Your message').fill(text);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  const costs = page.locator('.costs');
  await costs.getByText('first word').waitFor();
  return costs;
}

test(
  'an answer that broke off says so, and leads to what it cost',
  async () => {
    await using tab = await open();
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/cut');
    const costs = await ask(tab, 'Hi');
    await costs.getByText('cut short').waitFor();
    await costs.getByRole('link', { name: 'receipt' }).click();
    const receipt = tab.page.getByRole('dialog', { name: 'Receipt' });
    await receipt
      .getByText('The answer was cut off. The part that was received is charged.')
      .waitFor();
  },
  patienceMs,
);

test(
  'an answer that one stops does the same, but not while more may come',
  async () => {
    await using tab = await open();
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/silent');
    const costs = await ask(tab, 'Hi');
    const receipt = costs.getByRole('link', { name: 'receipt' });
    expect([await receipt.count(), await costs.getByText('cut short').count()]).toEqual([0, 0]);
    await tab.page.getByRole('button', { name: 'Stop' }).click();
    await costs.getByText('cut short').waitFor();
    expect(await receipt.getAttribute('href')).toMatch(/\?request=[0-9a-f-]{36}$/);
    expect(await tab.barriers()).toEqual([]);
  },
  patienceMs,
);

test(
  'a message that was refused can be sent again, but is no part of what is said instead',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/picky');
    const said = page.getByLabel('Your message');
    await said.fill('Too much');
    await said.press('Enter');
    await page.getByRole('button', { name: 'Try again' }).click();
    const refused = () => upstream.requests.filter(({ model }) => model === 'picky');
    await upstream.until(() => refused().length === 2);
    await page.locator('.turn.user').getByText('left out').waitFor();
    await ask(tab, 'Less');
    const content = ({ json }: LoggedRequest) => isObject(json) && json.messages;
    expect(refused().map(content)).toEqual([
      [{ role: 'user', content: 'Too much' }],
      [{ role: 'user', content: 'Too much' }],
      [{ role: 'user', content: 'Less' }],
    ]);
    expect(await tab.barriers()).toEqual([]);
  },
  patienceMs,
);

test(
  'a tool still waits for its result when what was said instead is refused',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/calling&tools=1');
    await ask(tab, 'Weather?');
    const said = page.getByLabel('Your message');
    await said.fill('Well?');
    await said.press('Enter');
    await page.locator('.turn.user').getByText('left out').waitFor();
    await page.getByLabel('Result of look').fill('wet');
    await page.getByRole('button', { name: 'Send the result' }).click();
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
  patienceMs,
);

interface Places {
  readonly first: number;
  readonly last: number;
  readonly left: number;
  readonly right: number;
}

/** The middle of the first and of the last character, and the sides of the box around them. */
const placesIn = ({ page }: Tab, selector: string) =>
  page.evaluate(`(() => {
    const element = document.querySelector('${selector}');
    const [node] = element.childNodes;
    const middle = (at) => {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const { left, right } = range.getBoundingClientRect();
      return (left + right) / 2;
    };
    const { left, right } = element.getBoundingClientRect();
    return { first: middle(0), last: middle(node.length - 1), left, right };
  })()`) as Promise<Places>;

test(
  'Arabic is read from the right to the full stop on the left',
  async () => {
    await using tab = await open();
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/arabic');
    await ask(tab, 'Hi');
    const { first, last } = await placesIn(tab, '.assistant .message-text');
    expect(last).toBeLessThan(first);
  },
  patienceMs,
);

test(
  'of a long Arabic name the log shows the beginning',
  async () => {
    const body = { name: 'مفتاح التطبيق العربي الطويل جدا للاختبار والمراقبة والفوترة' };
    const made = await gateway.manage('POST', '/api/v1/keys', body);
    const asked = { model: 'test/arabic', messages: [{ role: 'user', content: 'Hi' }] };
    const key = String(made.body.key);
    expect((await gateway.chat(asked, { key })).status).toBe(200);
    await using tab = await open();
    await tab.signIn(gateway.url, key, '/logs');
    await tab.page.locator('.key-name', { hasText: 'مفتاح' }).waitFor();
    const { first, last, left, right } = await placesIn(tab, '.key-name');
    expect(first).toBeWithin(left, right);
    // So long that its end has no place there.
    expect(last).toBeLessThan(left);
  },
  patienceMs,
);

test(
  'a long conversation is followed to its end by whoever has not scrolled away',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/arabic');
    const message = page.getByLabel('Your message');
    const lines = 'line\n'.repeat(desk.height / 20);
    for (const answers of [1, 2]) {
      await message.fill(lines);
      await message.press('Enter');
      await page
        .getByRole('link', { name: 'receipt' })
        .nth(answers - 1)
        .waitFor();
      const box = await message.boundingBox();
      expect(box && box.y + box.height).toBeLessThan(desk.height);
    }
    // A notch of a wheel, or farther.
    const steps = [
      [2, 40],
      [3, 400],
    ] as const;
    for (const [answers, up] of steps) {
      await message.fill('Hi');
      const place = await page.evaluate(`new Promise((there) => {
        const place = Math.round(scrollY) - ${up};
        addEventListener('scroll', () => scrollY === place && there(place));
        scrollTo(0, place);
      })`);
      await page.keyboard.press('Enter');
      await page.getByRole('link', { name: 'receipt' }).nth(answers).waitFor();
      expect(await page.evaluate('scrollY')).toBe(place);
    }
  },
  patienceMs,
);

test(
  'images that no request has room for together are refused as they are attached, and not kept',
  async () => {
    await using tab = await open();
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=test/seeing');
    await page.evaluate(`{
      const { createObjectURL: make, revokeObjectURL: end } = URL;
      globalThis.previews = new Set();
      URL.createObjectURL = (file) => {
        const url = make.call(URL, file);
        previews.add(url);
        return url;
      };
      URL.revokeObjectURL = (url) => {
        previews.delete(url);
        end.call(URL, url);
      };
    }`);
    const picture = (name: string, megabytes: number) => ({
      name: `${name}.png`,
      mimeType: 'image/png',
      buffer: Buffer.alloc(megabytes * 1024 * 1024),
    });
    const attach = page.getByLabel('Images to attach');
    await attach.setInputFiles([picture('a', 5), picture('b', 5)]);
    await page.getByRole('img', { name: 'b.png' }).waitFor();
    await attach.setInputFiles([picture('c', 5)]);
    await page.getByText('The images have 15.0 MB together; a request takes 14 MB.').waitFor();
    expect(await page.locator('.attachments img').count()).toBe(2);
    await attach.setInputFiles([picture('d', 4)]);
    await page.getByRole('img', { name: 'd.png' }).waitFor();
    // What was let through is taken.
    await ask(tab, 'And these?');
    expect(upstream.requests.filter(({ model }) => model === 'seeing')).toHaveLength(1);
    // All of it goes along with the next message.
    await attach.setInputFiles([picture('e', 1)]);
    const crowded = 'With those of earlier messages, the images have 15.0 MB together;';
    await page.getByText(`${crowded} a request takes 14 MB.`).waitFor();
    expect(await page.locator('.attachments img').count()).toBe(0);
    expect(await page.evaluate('previews.size')).toBe(0);
  },
  patienceMs,
);
