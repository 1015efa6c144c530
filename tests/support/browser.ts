/**
 * A real Chromium for the tests of the dashboard: the system's if there is one, else the build from
 * the registry. Each page collects what went wrong in it.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

const installed = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** For the start of the browser and for each step: a step takes this long only if it never ends. */
const patienceMs = 60_000;

/**
 * Features of the browser's windows that no page needs: a search box that is a page of its own in
 * each new window, and a spare process for the next page. They were four tenths of the browser's
 * work.
 */
const ofWindows = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'SpareRendererForSitePerProcess'];

/**
 * The features that Playwright turns off, repeated here: of several such lists the browser reads
 * only the last.
 */
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
/** The narrowest window to support: a small phone, or a desktop at a zoom of four. */
export const phone = { width: 320, height: 700 } as const;

export interface Look {
  readonly theme: 'light' | 'dark';
  readonly size: { readonly width: number; readonly height: number };
}

/** A separate tab that shares no data with others and lists everything that went wrong in it. */
export class Tab implements AsyncDisposable {
  readonly page: Page;
  /** Errors in the console, failed scripts, broken rules of the content-security policy. */
  readonly problems: string[] = [];
  /** Every address that the page requested. */
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
    // Without a locale, the shipped build takes one from the machine that no real browser would
    // have.
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

  /** Switches the system between light and dark, and the open page with it. */
  async turn(theme: Look['theme']): Promise<void> {
    await this.page.emulateMedia({ colorScheme: theme });
    await this.page.locator(`html[data-theme=${theme}]`).waitFor();
  }

  /** What axe-core calls serious or critical, one line each. */
  async barriers(): Promise<string[]> {
    // The page's content-security policy blocks other scripts, so axe is injected from outside.
    if (!(await this.page.evaluate("'axe' in window"))) await this.page.evaluate(await axe());
    const found = (await this.page.evaluate(
      `axe.run(document, { resultTypes: ['violations'], selectors: false }).then(({ violations }) =>
        violations
          .filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' | ')))`,
    )) as string[];
    return found;
  }

  /**
   * By how many pixels the page is wider than the window: more than none means sideways scrolling.
   */
  async overhang(): Promise<number> {
    const script = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
    return Number(await this.page.evaluate(script));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close();
  }
}
