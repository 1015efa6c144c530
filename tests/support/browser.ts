/**
 * Starts Chromium for dashboard tests: the installed one, or a build from the registry if none is
 * installed. Each page collects its errors.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

const installed = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The timeout for starting the browser and for each step. */
const timeoutMs = 60_000;

/**
 * Browser features that no page needs: each window has a search box, which is a page itself, and a
 * spare process for the next page. They cost 40% of the browser's CPU time.
 */
const windowFeatures = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'SpareRendererForSitePerProcess',
];

/**
 * The features that Playwright disables. They are repeated here because the browser reads only the
 * last list.
 */
const playwrightFeatures = [
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
  `--disable-features=${[...playwrightFeatures, ...windowFeatures].join()}`,
];

export async function openBrowser(): Promise<Browser> {
  const path = installed.find((file) => existsSync(file)) ?? (await registryBuild());
  return chromium.launch({ executablePath: path, args, headless: true, timeout: timeoutMs });
}

async function registryBuild(): Promise<string> {
  const { default: build } = await import('@sparticuz/chromium');
  return build.executablePath();
}

let axeText: Promise<string> | undefined;

function axe(): Promise<string> {
  const path = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
  axeText ??= Bun.file(path).text();
  return axeText;
}

export const desktop = { width: 1280, height: 900 } as const;
/** The narrowest supported window: a small phone, or a desktop zoomed to 400%. */
export const phone = { width: 320, height: 700 } as const;

export interface Look {
  readonly theme: 'light' | 'dark';
  readonly size: { readonly width: number; readonly height: number };
}

/** A tab with its own browser context that collects its errors. */
export class Tab implements AsyncDisposable {
  readonly page: Page;
  /** Console errors, script errors, and violations of the Content-Security-Policy. */
  readonly problems: string[] = [];
  /** All URLs that the page requested. */
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
    // Without it, the registry's build uses a locale of the machine that no real browser has.
    const settings = { viewport: size, colorScheme: theme, locale: 'en-US' } as const;
    const context = await browser.newContext(settings);
    context.setDefaultTimeout(timeoutMs);
    return new Tab(context, await context.newPage());
  }

  async signIn(url: string, key: string, path = ''): Promise<void> {
    await this.page.goto(`${url}/dashboard${path}`);
    await this.page.getByLabel('Key or admin token').fill(key);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    await this.page.locator('#navigation').waitFor({ state: 'attached' });
  }

  /** Waits until the page has loaded all its data. */
  async settled(): Promise<void> {
    await this.page.locator('main h1').first().waitFor();
    await this.page.locator('.busy').first().waitFor({ state: 'detached' });
  }

  /** Switches the system's color scheme and waits for the page to follow. */
  async setTheme(theme: Look['theme']): Promise<void> {
    await this.page.emulateMedia({ colorScheme: theme });
    await this.page.locator(`html[data-theme=${theme}]`).waitFor();
  }

  /** Returns the serious and critical violations found by axe-core, one line each. */
  async accessibilityViolations(): Promise<string[]> {
    // The page's Content-Security-Policy blocks other scripts, so axe is injected from outside.
    if (!(await this.page.evaluate("'axe' in window"))) await this.page.evaluate(await axe());
    const found = (await this.page.evaluate(
      `axe.run(document, { resultTypes: ['violations'], selectors: false }).then(({ violations }) =>
        violations
          .filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' | ')))`,
    )) as string[];
    return found;
  }

  /** Returns by how many pixels the page is wider than the window. Above 0, the page scrolls. */
  async horizontalOverflow(): Promise<number> {
    const script = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
    return Number(await this.page.evaluate(script));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close();
  }
}
