import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, phone, Tab } from '../support/browser.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';
import { seedTraffic } from '../support/seed-traffic.ts';

/**
 * Opens every page with two months of traffic, in both themes, on a desktop and on a phone. With
 * TOLLGATE_SCREENSHOTS=1, also takes the screenshots in docs/images.
 */

const timeoutMs = 120_000;
const images = process.env.TOLLGATE_SCREENSHOTS ? join(import.meta.dir, '../../docs/images') : null;

const env = {
  TOLLGATE_BOOTSTRAP_API_KEY: `sk-tg-screenshots0-${'a'.repeat(40)}`,
  TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: `sk-mgmt-screenshots0-${'b'.repeat(40)}`,
  TOLLGATE_ADMIN_TOKEN: `sk-admin-${'c'.repeat(40)}`,
};

let gateway: Gateway;
let browser: Browser;
let requestId: string;
let failedId: string;

beforeAll(async () => {
  const dataDir = join(newFolder(), 'data');
  await seedTraffic(dataDir);
  gateway = await startGateway({ dataDir, env });
  const body = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };
  requestId = (await gateway.chat(body)).headers.get('x-request-id') ?? '';
  failedId = await lastRequest('status=error');
  await gateway.manage('PUT', '/api/v1/byok/mistral', { api_key: 'not-a-real-key-1234' });
  await gateway.admin('POST', '/admin/v1/tenants', { id: 'acme', name: 'Acme Ltd' });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
});

async function lastRequest(filter: string): Promise<string> {
  const path = `/v1/customer/logs?limit=1&${filter}`;
  const { body } = await gateway.call('GET', path, { key: gateway.keys.api });
  const [row] = body.logs as { request_id: string }[];
  return row?.request_id ?? '';
}

const sizes = [
  ['desktop', desktop],
  ['phone', phone],
] as const;

interface View {
  readonly name: string;
  readonly path: string | (() => string);
  readonly who: 'api' | 'management' | 'admin';
  /** Text that appears only once the data is loaded. */
  readonly shows: string;
}

const views: readonly View[] = [
  { name: 'overview', path: '', who: 'management', shows: 'anthropic/claude-sonnet-5' },
  { name: 'latency', path: '?metric=latency&split=provider', who: 'api', shows: 'no provider' },
  { name: 'logs', path: '/logs', who: 'management', shows: '1 to 50 of' },
  {
    name: 'receipt',
    path: () => `/logs?request=${requestId}`,
    who: 'management',
    shows: 'Total charged (credits)',
  },
  {
    name: 'receipt of a failure',
    path: () => `/logs?request=${failedId}`,
    who: 'management',
    shows: 'No provider returned a usable answer',
  },
  { name: 'key search', path: '/keys?search=bot', who: 'management', shows: 'Support bot' },
  { name: 'keys', path: '/keys', who: 'management', shows: 'Nightly reports' },
  { name: 'new key', path: '/keys?create=1', who: 'management', shows: 'Last valid day (UTC)' },
  { name: 'credits', path: '/credits', who: 'management', shows: 'Download CSV' },
  { name: 'models', path: '/models', who: 'api', shows: 'Demo Embeddings' },
  { name: 'model', path: '/models?model=demo/chat', who: 'api', shows: 'per million tokens' },
  {
    name: 'playground',
    path: '/playground?model=demo/chat',
    who: 'api',
    shows: 'No messages yet',
  },
  { name: 'jobs', path: '/jobs', who: 'api', shows: 'No jobs found' },
  { name: 'skills', path: '/skills', who: 'api', shows: 'built-in' },
  { name: 'provider keys', path: '/byok', who: 'management', shows: 'mistral' },
  { name: 'operator', path: '/operator', who: 'admin', shows: 'Acme Ltd' },
  {
    name: "a tenant's keys",
    path: '/operator?tenant=default',
    who: 'admin',
    shows: 'Nightly reports',
  },
  { name: 'providers', path: '/configuration', who: 'admin', shows: 'healthy' },
  { name: 'new provider', path: '/configuration?edit=+', who: 'admin', shows: 'Base URL' },
  { name: 'new model', path: '/configuration?kind=models&edit=+', who: 'admin', shows: 'Context' },
  { name: 'new alias', path: '/configuration?kind=aliases&edit=+', who: 'admin', shows: 'Weight' },
  { name: 'new plan', path: '/configuration?kind=plans&edit=+', who: 'admin', shows: 'Margin' },
  { name: 'prices', path: '/prices?search=small', who: 'admin', shows: 'In force' },
  { name: 'audit log', path: '/audit', who: 'admin', shows: 'tenant.create' },
  { name: 'explain', path: '/explain', who: 'admin', shows: 'Request body' },
  { name: 'no tenants', path: '/operator?search=x', who: 'admin', shows: 'No matching tenants' },
];

/** Pages with a screenshot in the docs, in the light theme on a desktop. */
const screenshotPages = new Set(['overview', 'receipt', 'keys', 'playground']);

async function visit(tab: Tab, { path, who, shows }: View): Promise<void> {
  await tab.signIn(gateway.url, gateway.keys[who], typeof path === 'string' ? path : path());
  await tab.page.getByText(shows).first().waitFor();
  await tab.settled();
}

/** Checks accessibility, width, and the console in both themes. */
async function expectNoProblems(tab: Tab, device: string): Promise<void> {
  for (const theme of ['dark', 'light'] as const) {
    await tab.setTheme(theme);
    expect([device, theme, await tab.accessibilityViolations()]).toEqual([device, theme, []]);
    expect([device, theme, await tab.horizontalOverflow()]).toEqual([device, theme, 0]);
  }
  expect([device, tab.problems]).toEqual([device, []]);
}

/** Runs a check on a desktop and on a phone at the same time. */
async function onBothSizes(check: (tab: Tab, device: string) => Promise<void>): Promise<void> {
  const checks = sizes.map(async ([device, size]) => {
    await using tab = await Tab.open(browser, { theme: 'dark', size });
    await check(tab, device);
  });
  await Promise.all(checks);
}

describe('both themes on desktop and phone', () => {
  test.each(views.map((view) => [view.name, view] as const))(
    'the page has no accessibility problems and no overflow: %s',
    (name, view) =>
      onBothSizes(async (tab, device) => {
        await visit(tab, view);
        await expectNoProblems(tab, device);
        expect(tab.requests.filter((url) => !url.startsWith(`${gateway.url}/`))).toEqual([]);
        if (images && device === 'desktop' && screenshotPages.has(name)) {
          await tab.page.setViewportSize({ width: 1_200, height: 760 });
          if (name === 'playground') await talk(tab);
          await tab.page.screenshot({ path: join(images, `dashboard-${name}.png`), scale: 'css' });
        }
      }),
    timeoutMs,
  );

  test(
    'the sign-in page has no accessibility problems and no overflow',
    () =>
      onBothSizes(async (tab, device) => {
        await tab.page.goto(`${gateway.url}/dashboard`);
        await tab.page.getByRole('button', { name: 'Sign in' }).waitFor();
        await expectNoProblems(tab, device);
      }),
    timeoutMs,
  );
});

test(
  'the sign-in page focuses the key field',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    await tab.page.goto(`${gateway.url}/dashboard`);
    await tab.page.locator('input:focus').waitFor();
    await tab.page.keyboard.type(gateway.keys.api);
    await tab.page.keyboard.press('Enter');
    await tab.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  },
  timeoutMs,
);

async function talk({ page }: Tab): Promise<void> {
  await page.getByLabel('Your message').fill('What does a toll gate do?');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.costs b').waitFor();
}

test(
  'the playground streams, calls tools, sends images, and shows the cost of each answer',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=demo/chat&tools=1');
    const send = async (text: string) => {
      await page.getByLabel('Your message').fill(text);
      await page.getByRole('button', { name: 'Send', exact: true }).click();
    };
    await send('Please use get_weather');
    await page.getByLabel('Result of get_weather').fill('sunny');
    await page.getByRole('button', { name: 'Send result' }).click();
    await page.getByText('The tool answered “sunny”').waitFor();
    await page.getByLabel('Images to attach').setInputFiles({
      name: 'dot.png',
      mimeType: 'image/png',
      buffer: Buffer.from(onePixel, 'base64'),
    });
    await page.getByRole('img', { name: 'dot.png' }).waitFor();
    await send('And this?');
    await page.getByText('png of 1×1 pixels').waitFor();
    await page.locator('.costs b').nth(2).waitFor();
    await page.getByText('Copy as code').click();
    const code = (name: string) => page.getByLabel(name, { exact: true }).inputValue();
    expect(await code('curl')).toContain(`curl ${gateway.url}/v1/chat/completions`);
    await page.getByRole('button', { name: 'Anthropic SDK', exact: true }).click();
    const anthropic = await code('Anthropic SDK');
    expect(anthropic).toContain('"type": "tool_result"');
    expect(anthropic).toContain('"media_type": "image/png"');
    await page.getByRole('button', { name: 'OpenAI SDK', exact: true }).click();
    expect(await code('OpenAI SDK')).toContain('"tool_call_id"');
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

const onePixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg' +
  'gg==';

test(
  'the playground sends the selected skills and effort, and keeps them in the URL',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/playground?model=demo/chat&effort=high');
    await page.locator('summary', { hasText: 'Skills' }).click();
    await page.getByLabel('json-only').check();
    await page.getByLabel('translate').check();
    await page.getByLabel('json-only').uncheck();
    expect(new URL(page.url()).searchParams.get('skills')).toBe('translate');
    await page.reload();
    expect(await page.getByLabel('translate').isChecked()).toBe(true);
    expect(await page.getByLabel('json-only').isChecked()).toBe(false);
    expect(await tab.accessibilityViolations()).toEqual([]);
    expect(await tab.horizontalOverflow()).toBe(0);
    await page.getByText('Copy as code').click();
    for (const [form, effort] of [
      ['curl', '"reasoning":{"effort":"high"}'],
      ['OpenAI SDK', '"reasoning":{"effort":"high"}'],
      ['Anthropic SDK', '"output_config":{"effort":"high"}'],
    ] as const) {
      await page.getByRole('button', { name: form, exact: true }).click();
      const code = (await page.getByLabel(form, { exact: true }).inputValue()).replaceAll(
        /\s/g,
        '',
      );
      expect(code).toContain('"skills":["translate"]');
      expect(code).toContain(effort);
    }
    await talk(tab);
    await page.getByRole('link', { name: 'Receipt' }).click();
    await page.getByRole('dialog').getByText('translate', { exact: true }).waitFor();
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  'skills can be created and deleted, and provider keys added and removed',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.management, '/skills');
    await page.getByRole('button', { name: 'Create a skill' }).click();
    await page.getByLabel('Name').fill('brief-answers');
    await page.getByLabel('Description').fill('Answers briefly.');
    await page.getByLabel('Instructions (Markdown)').fill('Answer in one sentence.');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Edit brief-answers' }).click();
    const text = page.getByLabel('Instructions (Markdown)');
    expect(await text.inputValue()).toBe('Answer in one sentence.');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Delete brief-answers' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('brief-answers').first().waitFor({ state: 'detached' });

    await page.getByRole('link', { name: 'Provider keys' }).click();
    await page.getByRole('button', { name: 'Add a provider key' }).click();
    await page.getByLabel('Provider', { exact: true }).selectOption('openai');
    await page.getByLabel('API key').fill('sk-not-a-real-key');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Remove the openai key' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('openai').first().waitFor({ state: 'detached' });
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  'a job can be started, shows its progress, and plays its result',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: desktop });
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.api, '/jobs?create=1');
    await page.getByLabel('Model').selectOption('demo/speech');
    // Longer than the model's input limit, so that the job is split into pieces.
    await page.getByLabel('Text to speak').fill('One more sentence to speak. '.repeat(300));
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    const row = page.getByRole('row', { name: /job_/ });
    await row.getByText('succeeded').waitFor();
    // 8,400 characters at $1 per million, minus the spaces at which the text was split.
    expect(await row.getByRole('cell').nth(5).innerText()).toMatch(/^8,39\d$/);
    const seconds = await page.evaluate(`new Promise((resolve, reject) => {
      const audio = document.querySelector('audio');
      audio.onloadedmetadata = () => resolve(audio.duration);
      audio.onerror = () => reject(new Error('The browser failed to load the audio.'));
      audio.load();
      audio.preload = 'auto';
    })`);
    expect(Number(seconds)).toBeGreaterThan(1);
    expect(await tab.accessibilityViolations()).toEqual([]);
    const [jobId = 'no job'] = /job_\w+/.exec(await row.innerText()) ?? [];
    const pieceId = await lastRequest('model=demo/speech');
    await page.goto(`${gateway.url}/dashboard/logs?request=${pieceId}`);
    const receipt = page.getByRole('dialog', { name: 'Receipt' });
    await receipt.getByText(jobId).waitFor();
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  'the code of the playground runs unchanged',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    const { page } = tab;
    const path = '/playground?model=demo/chat&max_tokens=200&system=Be%20kind.';
    await tab.signIn(gateway.url, gateway.keys.api, path);
    await page.getByLabel('Your message').fill(`It's a "quote"`);
    await page.getByText('Copy as code').click();
    const folder = newFolder();
    symlinkSync(join(import.meta.dir, '../../node_modules'), join(folder, 'node_modules'));
    const run = async (form: string, command: readonly string[], file: string) => {
      await page.getByRole('button', { name: form, exact: true }).click();
      await Bun.write(
        join(folder, file),
        await page.getByLabel(form, { exact: true }).inputValue(),
      );
      const child = Bun.spawn([...command, join(folder, file)], {
        cwd: folder,
        env: { PATH: process.env.PATH ?? '', TOLLGATE_KEY: gateway.keys.api },
        stdout: 'pipe',
        stderr: 'ignore',
      });
      return new Response(child.stdout).text();
    };
    const answer = `You asked: “It's a "quote"”`;
    const streamed = await run('curl', ['sh'], 'call.sh');
    expect(streamed).toContain('data: [DONE]');
    expect(streamed).toContain('quote');
    expect(await run('OpenAI SDK', [process.execPath], 'openai.ts')).toContain(answer);
    expect(await run('Anthropic SDK', [process.execPath], 'anthropic.ts')).toContain(answer);
  },
  timeoutMs,
);
