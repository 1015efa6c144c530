import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, Tab } from '../support/browser.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;

const upstream = startFakeUpstream();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  upstream.script('chat-1', chatAnswer('Hello!', { usage: { prompt: 10, completion: 2 } }));
  gateway = await startGateway({
    upstreams: { locked: { url: upstream.url, models: { 'locked/chat': { prompt: '1' } } } },
  });
  browser = await openBrowser();
}, timeoutMs);

afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  upstream.stop();
});

test(
  'an operator creates a provider and a model, tests the provider, and deletes the model',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.admin, '/configuration');
    await page
      .getByRole('row', { name: /^locked/ })
      .getByText('file, locked')
      .waitFor();
    await page.getByRole('button', { name: 'Create a provider' }).click();
    await page.getByLabel('Name', { exact: true }).fill('acme');
    await page.getByLabel('Base URL').fill(`${upstream.url}/v1`);
    await page.getByLabel('API key').fill('sk-of-acme-1234');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('button', { name: 'Test acme' }).click();
    await page
      .getByRole('dialog')
      .getByText(/works|failed/)
      .waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Edit acme' }).click();
    await page.getByText('Leave it empty to keep the key •••1234').waitFor();
    await page.getByText('More fields').click();
    const json = page.getByLabel('All fields as JSON');
    expect(await json.inputValue()).not.toContain('sk-of-acme');
    await page.keyboard.press('Escape');

    await page.getByRole('button', { name: 'Models', exact: true }).click();
    await page.getByRole('button', { name: 'Create a model' }).click();
    await page.getByLabel('ID').fill('acme/chat');
    const model = {
      name: 'Acme Chat',
      input_modalities: ['text'],
      output_modalities: ['text'],
      endpoints: [
        { provider: 'acme', model: 'chat-1', pricing: { prompt: 'much', completion: '2' } },
      ],
    };
    await json.fill(JSON.stringify(model));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('alert').getByText('endpoints[0].pricing.prompt').waitFor();
    expect(await json.getAttribute('aria-invalid')).toBe('true');
    await json.fill(JSON.stringify(model).replace('much', '1'));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page
      .getByRole('row', { name: /acme\/chat/ })
      .getByText('live')
      .waitFor();
    const messages = [{ role: 'user', content: 'Hi' }];
    expect((await gateway.chat({ model: 'acme/chat', messages })).status).toBe(200);
    await gateway.admin('PUT', '/admin/v1/aliases/team/fast', { models: ['acme/chat'] });
    await page.getByRole('button', { name: 'Aliases', exact: true }).click();
    await page.getByRole('button', { name: 'Edit team/fast' }).click();
    await json.fill('{"models": [{"model": "locked/chat", "weight": 7}]}');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('locked/chat (weight 7)').waitFor();
    await page.getByRole('button', { name: 'Models', exact: true }).click();
    await page.getByRole('button', { name: 'Delete acme/chat' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('acme/chat').first().waitFor({ state: 'detached' });
    expect(tab.problems.filter((problem) => !problem.includes('400'))).toEqual([]);
  },
  timeoutMs,
);

test(
  "an editor's change is not overwritten by another editor",
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: desktop });
    const { page } = tab;
    const path = '/admin/v1/providers/shared';
    const created = { dialect: 'openai', base_url: upstream.url, api_key: 'sk-shared-5678' };
    await gateway.admin('PUT', path, created);
    await tab.signIn(gateway.url, gateway.keys.admin, '/configuration?edit=shared');
    const wait = page.getByLabel('First byte within (ms)');
    await wait.fill('1000');
    await gateway.admin('PATCH', path, { timeout_ms: 2000 });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('was changed by admin meanwhile').waitFor();
    await page.getByText('Discard my changes and load the current version').click();
    await page.locator('dialog input[type=number]').first().waitFor();
    await page.getByText('was changed by admin meanwhile').waitFor({ state: 'detached' });
    expect(await wait.inputValue()).toBe('2000');
    await wait.fill('3000');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const { body } = await gateway.admin('GET', path);
    expect(body.data).toMatchObject({ config: { timeout_ms: 3000, api_key: '•••5678' } });
  },
  timeoutMs,
);

test(
  'the audit log shows the fields that changed, and a route is explained for operators and tenants',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: desktop });
    const { page } = tab;
    const path = '/admin/v1/settings/limits.requests_per_minute';
    await gateway.admin('PUT', path, { value: 500 });
    await gateway.admin('PUT', path, { value: 501 });
    await tab.signIn(gateway.url, gateway.keys.admin, '/audit?action=setting.');
    await page
      .getByRole('row', { name: /setting.update/ })
      .getByRole('button')
      .click();
    const changes = page.getByRole('list', { name: 'Changes' });
    expect(await changes.locator('del code').allInnerTexts()).toEqual(['500']);
    expect(await changes.locator('ins code').allInnerTexts()).toEqual(['501']);
    await page.getByRole('button', { name: 'Restore the state before' }).click();
    await page.getByRole('button', { name: 'Restore', exact: true }).click();
    await page.getByRole('dialog').first().waitFor({ state: 'detached' });
    await page
      .getByRole('row', { name: /setting.update/ })
      .nth(1)
      .waitFor();
    expect((await gateway.admin('GET', path)).body.data).toMatchObject({ value: 500 });

    await page.getByRole('link', { name: 'Explain a route' }).click();
    const body = page.getByLabel('Request body');
    await body.fill((await body.inputValue()).replace('""', '"locked/chat"'));
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByRole('table', { name: 'Plan' }).getByText('locked/chat').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await tab.signIn(gateway.url, gateway.keys.api, '/explain?model=locked/chat');
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByRole('table', { name: 'Plan' }).getByText('locked').first().waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);
