/**
 * A real Chromium for the tests of the dashboard: the system's where there is one, else the build
 * that comes from the registry. Every page tells what went wrong in it.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

const installed = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** For a start of it and for each step; only what never comes takes so long. */
const patienceMs = 60_000;

/**
 * What belongs to a window and to no page. A search box is a page of its own that each new window
 * loads, and a spare process waits for the next page: four tenths of all that the browser did.
 */
const ofWindows = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'SpareRendererForSitePerProcess'];

/** What Playwright turns off: of several such lists the browser reads the last only. */
const byPlaywright = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
];

const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  `--disable-features=${[...byPlaywright, ...ofWindows].join()}`,
];

export async function openBrowser(): Promise<Browser> {
  const path = installed.find((file) => existsSync(file)) ?? (await shipped());
  return chromium.launch({ executablePath: path, args, headless: true, timeout: patienceMs });
}

async function shipped(): Promise<string> {
  const { default: build } = await import('@sparticuz/chromium');
  return build.executablePath();
}

let axeText: Promise<string> | undefined;

function axe(): Promise<string> {
  const path = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
  axeText ??= Bun.file(path).text();
  return axeText;
}

export const desk = { width: 1280, height: 900 } as const;
/** The narrowest that anybody has: a small phone, or a desk magnified four times. */
export const phone = { width: 320, height: 700 } as const;

export interface Look {
  readonly theme: 'light' | 'dark';
  readonly size: { readonly width: number; readonly height: number };
}

/** A tab of its own, with nothing kept from others, and a list of all that was amiss in it. */
export class Tab implements AsyncDisposable {
  readonly page: Page;
  /** Errors in the console, failed scripts, broken rules of the content-security policy. */
  readonly problems: string[] = [];
  /** Every address that was asked for. */
  readonly requests: string[] = [];
  readonly #context: BrowserContext;

  private constructor(context: BrowserContext, page: Page) {
    this.#context = context;
    this.page = page;
    page.on('console', (message) => {
      if (message.type() === 'error') this.problems.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => this.problems.push(`script: ${error.message}`));
    page.on('request', (request) => this.requests.push(request.url()));
    page.on('dialog', (dialog) => {
      this.problems.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }

  static async open(browser: Browser, look: Look): Promise<Tab> {
    const { theme, size } = look;
    // Without a locale the shipped build takes one from the machine that no browser would have.
    const settings = { viewport: size, colorScheme: theme, locale: 'en-US' } as const;
    const context = await browser.newContext(settings);
    context.setDefaultTimeout(patienceMs);
    return new Tab(context, await context.newPage());
  }

  async signIn(url: string, key: string, path = ''): Promise<void> {
    await this.page.goto(`${url}/dashboard${path}`);
    await this.page.getByLabel('Key or admin token').fill(key);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    await this.page.locator('#navigation').waitFor({ state: 'attached' });
  }

  /** Waits until nothing on the page is still being fetched. */
  async settled(): Promise<void> {
    await this.page.locator('main h1').first().waitFor();
    await this.page.locator('.busy').first().waitFor({ state: 'detached' });
  }

  /** The system turns from light to dark, or back, and the open page with it. */
  async turn(theme: Look['theme']): Promise<void> {
    await this.page.emulateMedia({ colorScheme: theme });
    await this.page.locator(`html[data-theme=${theme}]`).waitFor();
  }

  /** What axe-core calls serious or critical, one line each. */
  async barriers(): Promise<string[]> {
    // The page's own policy lets no script in, so this one is put in from outside of it.
    if (!(await this.page.evaluate("'axe' in window"))) await this.page.evaluate(await axe());
    const found = (await this.page.evaluate(
      `axe.run(document, { resultTypes: ['violations'], selectors: false }).then(({ violations }) =>
        violations
          .filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' | ')))`,
    )) as string[];
    return found;
  }

  /** How much wider than the window the page is; nobody wants to scroll sideways. */
  async overhang(): Promise<number> {
    const script = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
    return Number(await this.page.evaluate(script));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close();
  }
}
