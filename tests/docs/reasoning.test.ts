/** Compares the table of efforts in the docs with the requests to each provider. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import type { DialectName, Quirks } from '../../src/config/provider-schema.ts';
import { isObject } from '../../src/core/json.ts';
import { type Effort, efforts } from '../../src/core/prompt.ts';
import { dialects } from '../../src/dialects/registry.ts';
import { isChatModel } from '../../src/route/capability.ts';
import { makePrompt, makeTarget } from '../support/prompts.ts';

const page = readFileSync(new URL('../../docs/reasoning.md', import.meta.url), 'utf8');

type Model = (typeof builtinCatalog.models)[number];

interface Endpoint {
  readonly model: Model;
  readonly provider: string;
  readonly dialect: DialectName;
  readonly quirks: Quirks;
}

function endpointsOf(model: Model): Endpoint[] {
  return model.endpoints.map(({ provider, dialect, quirks }) => {
    const vendor = builtinCatalog.providers.find(({ name }) => name === provider);
    if (!vendor) throw new Error(`There is no provider ${provider}.`);
    return {
      model,
      provider,
      dialect: dialect ?? vendor.dialect,
      quirks: { ...vendor.quirks, ...quirks },
    };
  });
}

/** Returns the reasoning setting in a request of any dialect, or a dash if there is none. */
function settingIn(body: Record<string, unknown>): string {
  const objectAt = (name: string) => (isObject(body[name]) ? body[name] : {});
  const { generationConfig: config } = body;
  const thinking = isObject(config) && isObject(config.thinkingConfig) ? config.thinkingConfig : {};
  if (objectAt('thinking').type === 'disabled') return 'off';
  const setting =
    body.reasoning_effort ??
    objectAt('reasoning').effort ??
    objectAt('output_config').effort ??
    objectAt('thinking').budget_tokens ??
    thinking.thinkingLevel ??
    thinking.thinkingBudget;
  return setting === undefined ? '-' : `\`${String(setting)}\``;
}

function settingFor({ model, dialect, quirks }: Endpoint, effort: Effort): string {
  const upstream = dialects[dialect].chat;
  if (!upstream) throw new Error(`The dialect ${dialect} doesn't support chat.`);
  const reasoning = { effort, budgetTokens: null, visible: true };
  const { body } = upstream.write(
    makePrompt({ reasoning }),
    makeTarget({
      quirks,
      thinking: model.thinking ?? null,
      modelOutputTokensMax: model.max_completion_tokens ?? null,
    }),
  );
  return settingIn(JSON.parse(String(body)) as Record<string, unknown>);
}

describe('docs/reasoning.md', () => {
  test('lists the reasoning settings of every reasoning model', () => {
    const endpoints = builtinCatalog.models
      .filter(({ features }) => features?.includes('reasoning'))
      .flatMap(endpointsOf);
    const actual = endpoints.map((endpoint) => {
      const settings = efforts.map((effort) => settingFor(endpoint, effort));
      return [`\`${endpoint.model.id}\``, `\`${endpoint.provider}\``, ...settings].join(' | ');
    });
    expect(actual.length).toBeGreaterThan(30);
    const rows = [...page.matchAll(/^\| (`[\w-]+\/[^|]+\|.*) \|$/gm)].map(([, row = '']) =>
      row
        .split('|')
        .map((cell) => cell.trim())
        .join(' | '),
    );
    expect(rows.toSorted()).toEqual(actual.toSorted());
  });

  test('lists no other models, because they get no reasoning settings', () => {
    const others = builtinCatalog.models
      .filter(({ features = [], output_modalities }) => {
        return isChatModel({ features, output_modalities }) && !features.includes('reasoning');
      })
      .flatMap(endpointsOf)
      .map((endpoint) => [
        endpoint.model.id,
        ...efforts.map((effort) => settingFor(endpoint, effort)),
      ]);
    expect(others.length).toBeGreaterThan(5);
    const withSettings = others.filter(([, ...settings]) => settings.some((text) => text !== '-'));
    expect(withSettings).toEqual([]);
  });
});
