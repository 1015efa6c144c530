/** The table of efforts in the documents against what the gateway really asks of each provider. */
import { expect, test } from 'bun:test';
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

interface Place {
  readonly model: Model;
  readonly provider: string;
  readonly dialect: DialectName;
  readonly quirks: Quirks;
}

function placesOf(model: Model): Place[] {
  return model.endpoints.map(({ provider, dialect, quirks }) => {
    const vendor = builtinCatalog.providers.find(({ name }) => name === provider);
    if (!vendor) throw new Error(`no provider ${provider}`);
    return {
      model,
      provider,
      dialect: dialect ?? vendor.dialect,
      quirks: { ...vendor.quirks, ...quirks },
    };
  });
}

/** What is said about thinking in a request of any dialect; a dash for nothing. */
function wordIn(body: Record<string, unknown>): string {
  const inside = (name: string) => (isObject(body[name]) ? body[name] : {});
  const { generationConfig: config } = body;
  const thinking = isObject(config) && isObject(config.thinkingConfig) ? config.thinkingConfig : {};
  if (inside('thinking').type === 'disabled') return 'off';
  const word =
    body.reasoning_effort ??
    inside('reasoning').effort ??
    inside('output_config').effort ??
    inside('thinking').budget_tokens ??
    thinking.thinkingLevel ??
    thinking.thinkingBudget;
  return word === undefined ? '-' : `\`${String(word)}\``;
}

function askedOf({ model, dialect, quirks }: Place, effort: Effort): string {
  const upstream = dialects[dialect].chat;
  if (!upstream) throw new Error(`${dialect} does not chat`);
  const reasoning = { effort, budgetTokens: null, visible: true };
  const { body } = upstream.write(
    makePrompt({ reasoning }),
    makeTarget({
      quirks,
      thinking: model.thinking ?? null,
      modelOutputTokensMax: model.max_completion_tokens ?? null,
    }),
  );
  return wordIn(JSON.parse(String(body)) as Record<string, unknown>);
}

test('every reasoning model of the catalogue is asked what the page says', () => {
  const places = builtinCatalog.models
    .filter(({ features }) => features?.includes('reasoning'))
    .flatMap(placesOf);
  const real = places.map((place) => {
    const words = efforts.map((effort) => askedOf(place, effort));
    return [`\`${place.model.id}\``, `\`${place.provider}\``, ...words].join(' | ');
  });
  expect(real.length).toBeGreaterThan(30);
  const rows = [...page.matchAll(/^\| (`[\w-]+\/[^|]+\|.*) \|$/gm)].map(([, row = '']) =>
    row
      .split('|')
      .map((cell) => cell.trim())
      .join(' | '),
  );
  expect(rows.toSorted()).toEqual(real.toSorted());
});

test('a model of the catalogue that does not reason is told nothing about it', () => {
  const asked = builtinCatalog.models
    .filter(({ features = [], output_modalities }) => {
      return isChatModel({ features, output_modalities }) && !features.includes('reasoning');
    })
    .flatMap(placesOf)
    .map((place) => [place.model.id, ...efforts.map((effort) => askedOf(place, effort))]);
  expect(asked.length).toBeGreaterThan(5);
  expect(asked.filter(([, ...words]) => words.some((word) => word !== '-'))).toEqual([]);
});
