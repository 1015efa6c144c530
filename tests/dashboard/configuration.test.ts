import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Browser } from 'playwright-core';
import { desktop, openBrowser, phone, Tab } from '../support/browser.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const timeoutMs = 120_000;

const upstream = startFakeUpstream();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  upstream.script('chat-1', chatAnswer('Hello!', { usage: { prompt: 10, completion: 2 } }));
  gateway = await startGateway({
    upstreams: {
      locked: { url: upstream.url, models: { 'locked/chat': { prompt: '1' }, 'locked/other': {} } },
    },
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
    await page.getByLabel('ID', { exact: true }).fill('acme/chat');
    await page.getByLabel('Display name').fill('Acme Chat');
    await page.getByLabel('Provider', { exact: true }).fill('acme');
    await page.getByLabel('Its name for the model').fill('chat-1');
    await page.getByLabel('Input, per million tokens ($)', { exact: true }).fill('1');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('alert').getByText('pricing needs completion').waitFor();
    await page.getByLabel('Output, per million tokens ($)').fill('2');
    await page.getByText('More fields').click();
    await json.fill((await json.inputValue()).replace('chat-1', 'chat-1", "region": "moon'));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('alert').getByText('region').waitFor();
    expect(await json.getAttribute('aria-invalid')).toBe('true');
    await json.fill((await json.inputValue()).replace(/"region": "moon",?/, '"weight": 1,'));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page
      .getByRole('row', { name: /acme\/chat/ })
      .getByText('live')
      .waitFor();
    const messages = [{ role: 'user', content: 'Hi' }];
    expect((await gateway.chat({ model: 'acme/chat', messages })).status).toBe(200);
    await page.getByRole('button', { name: 'Delete acme/chat' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('acme/chat').first().waitFor({ state: 'detached' });
    expect(tab.problems.filter((problem) => !problem.includes('400'))).toEqual([]);
  },
  timeoutMs,
);

test(
  'an operator gives an alias weights and conditions, and goes back to an earlier version',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'light', size: phone });
    const { page } = tab;
    await gateway.admin('PUT', '/admin/v1/aliases/team/fast', { models: ['locked/chat'] });
    await tab.signIn(gateway.url, gateway.keys.admin, '/configuration?kind=aliases');
    await page.getByRole('button', { name: 'Edit team/fast' }).click();
    await page.getByLabel('Weight').fill('3');
    await page.getByRole('button', { name: 'Add a model' }).click();
    const second = page.getByRole('group', { name: 'Model 2' });
    await second.getByLabel('Model', { exact: true }).fill('locked/other');
    await second.getByLabel('Weight').fill('1');
    await second.getByText('Only for some requests').click();
    await second.getByLabel('Share of requests (%)').fill('0.05');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('locked/other · 25% · if percent').waitFor();
    await page.getByRole('button', { name: 'Edit team/fast' }).click();
    await page.getByText('Versions').click();
    await page.getByRole('button', { name: 'Go back to this version' }).click();
    await page.getByRole('button', { name: 'Restore', exact: true }).click();
    await page.getByText('locked/other · 25%').waitFor({ state: 'detached' });
    const restored = await gateway.admin('GET', '/admin/v1/aliases/team/fast');
    expect(restored.body.data).toMatchObject({ config: { models: ['locked/chat'] } });
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  'an operator schedules a price, cancels it, and gives a tenant a plan',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: phone });
    const { page } = tab;
    await tab.signIn(gateway.url, gateway.keys.admin, '/prices?price=locked/chat@locked');
    await page.getByRole('button', { name: 'Change the price' }).click();
    await page.getByLabel('Starts at (UTC)').fill('2099-01-01T00:00');
    const input = page.getByLabel('Input, per million tokens ($)', { exact: true });
    await input.fill('0,5');
    await page.getByRole('button', { name: 'Schedule' }).click();
    await page.getByText('Enter dollars with a decimal point').waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    expect(await tab.horizontalOverflow()).toBe(0);
    await input.fill('0.123456789');
    await page.getByRole('button', { name: 'Schedule' }).click();
    await page.getByText('From 01 Jan 2099').waitFor();
    const listed = await gateway.admin('GET', '/admin/v1/prices');
    const [, scheduled] = listed.body.data as { state: string; pricing: object }[];
    expect(scheduled).toMatchObject({ state: 'scheduled', pricing: { prompt: '0.123456789' } });
    await page.getByRole('button', { name: 'Cancel this change' }).click();
    await page.getByRole('button', { name: 'Cancel the change' }).click();
    await page.getByText('From 01 Jan 2099').waitFor({ state: 'detached' });

    await page.goto(`${gateway.url}/dashboard/configuration?kind=plans&edit=+`);
    await page.getByLabel('Name', { exact: true }).fill('reseller');
    await page.getByLabel('Margin (%)').fill('-2.05');
    await page.getByLabel('Per request ($)').fill('0.001');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('−2.05%, and surcharges').waitFor();
    await page.getByRole('button', { name: 'Edit reseller' }).click();
    await page.getByLabel('Give it to (tenant ID)').fill('default');
    await page.getByRole('button', { name: 'Assign' }).click();
    await page.getByRole('button', { name: 'Remove the plan from Default' }).waitFor();
    const plan = await gateway.admin('GET', '/admin/v1/plans/reseller');
    expect(plan.body.data).toMatchObject({
      config: { factor_basis_points: 9_795, surcharge: { request: '0.001' } },
    });
    const tenants = await gateway.admin('GET', '/admin/v1/tenants?plan=reseller');
    expect(tenants.body.data).toMatchObject([{ id: 'default', plan: 'reseller' }]);
    const others = await gateway.admin('GET', '/admin/v1/tenants?plan=other');
    expect(others.body.data).toEqual([]);
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  "an editor's change is not overwritten by another editor, and a key is rotated",
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: desktop });
    const { page } = tab;
    const path = '/admin/v1/providers/shared';
    const created = { dialect: 'openai', base_url: upstream.url, api_key: 'sk-shared-5678' };
    await gateway.admin('PUT', path, created);
    await tab.signIn(gateway.url, gateway.keys.admin, '/configuration?edit=shared');
    const field = page.getByLabel('First byte within (ms)');
    const save = page.getByRole('button', { name: 'Save', exact: true });
    await field.fill('1000');
    await gateway.admin('PATCH', path, { idle_timeout_ms: 4000 });
    await save.click();
    await page.getByText('has changed this').waitFor();
    await page.getByRole('list', { name: 'Their changes' }).getByText('4000').waitFor();
    await page.getByRole('list', { name: 'Your changes' }).getByText('1000').waitFor();
    await page.getByRole('button', { name: 'Add my changes to theirs' }).click();
    await gateway.admin('PATCH', path, { timeout_ms: 2000 });
    await save.click();
    await page.getByRole('list', { name: 'Their changes' }).getByText('2000').waitFor();
    expect(await field.inputValue()).toBe('1000');
    await page.getByRole('button', { name: 'Discard mine' }).click();
    expect(await field.inputValue()).toBe('2000');
    await field.fill('3000');
    await save.click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Edit shared' }).click();
    await page.getByText('Rotate a key').click();
    await page.getByLabel('New key').fill('sk-rotated-9012');
    await page.getByRole('button', { name: 'Rotate', exact: true }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain('sk-rotated');
    const { body } = await gateway.admin('GET', path);
    expect(body.data).toMatchObject({
      config: { timeout_ms: 3000, idle_timeout_ms: 4000, api_key: '•••9012' },
    });
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
    await page.getByLabel('Model or alias').fill('locked/chat');
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByRole('list', { name: 'Plan' }).getByText('locked/chat').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await tab.signIn(gateway.url, gateway.keys.api, '/explain?model=locked/chat');
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByRole('list', { name: 'Plan' }).getByText('locked').first().waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    const menu = await page.locator('#navigation a').allInnerTexts();
    expect(menu).toContain('Explain a route');
    for (const operatorPage of ['Operator', 'Configuration', 'Prices', 'Audit log'])
      expect(menu).not.toContain(operatorPage);
    await page.goto(`${gateway.url}/dashboard/prices`);
    await page.getByText("Your key can't open this page").waitFor();
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);

test(
  'an operator sees the state of each key, and tests a provider with one token',
  async () => {
    await using tab = await Tab.open(browser, { theme: 'dark', size: desktop });
    const { page } = tab;
    const counts = { weight: 1, running_requests: 0, until: null, retry_after_seconds: null };
    const keyOf = (name: string, state: string, message: string | null = null) => ({
      ...{ ...counts, name, state, message, status: message === null ? null : 401 },
    });
    const keys = [
      keyOf('limited', 'waiting'),
      keyOf('expired', 'set_aside', 'Incorrect API key provided: [key].'),
      keyOf('good', 'available'),
    ];
    await page.route('**/admin/v1/providers', async (route) => {
      const response = await route.fetch();
      const { data } = (await response.json()) as { data: object[] };
      await route.fulfill({ json: { data: data.map((provider) => ({ ...provider, keys })) } });
    });
    await tab.signIn(gateway.url, gateway.keys.admin, '/configuration');
    const row = page.getByRole('row', { name: /^locked/ });
    await row.getByText('rate limited').waitFor();
    await row.getByText('set aside').waitFor();
    await row.getByText('Incorrect API key provided: [key].').waitFor();
    expect(await tab.accessibilityViolations()).toEqual([]);
    await page.getByRole('button', { name: 'Test locked' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('List of models').waitFor();
    await dialog.getByRole('button', { name: 'Generate one token' }).click();
    await dialog.getByText('One token · locked/chat').waitFor();
    await dialog.getByText('generated a token.').waitFor();
    expect(tab.problems).toEqual([]);
  },
  timeoutMs,
);
