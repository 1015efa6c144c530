import { AreaField, Checkbox, SelectField, TextField } from '../components/field.tsx';
import { setQuery, useRoute } from '../route.ts';
import type { ChatBody } from '../snippets.ts';
import { shortPrice } from './model-sheet.tsx';
import type { CatalogModel } from './models.tsx';
import { SkillChoice } from './playground-skills.tsx';

/** The settings of a request, without its messages. All settings are in the URL. */
interface SettingsState {
  readonly body: Omit<ChatBody, 'messages'>;
  readonly system: string;
  readonly temperature: string;
  readonly maxTokens: string;
  readonly effort: string;
  readonly skills: readonly string[];
  readonly hasTools: boolean;
  readonly tools: string;
  readonly toolsProblem: string | undefined;
  readonly acceptsImages: boolean;
}

const sampleTools = JSON.stringify(
  [
    {
      type: 'function',
      function: {
        name: 'get_weather',
        description: 'The weather in a city',
        parameters: {
          type: 'object',
          properties: { city: { type: 'string' } },
          required: ['city'],
        },
      },
    },
  ],
  null,
  2,
);

function readTools(text: string): { tools?: readonly unknown[]; problem?: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (Array.isArray(value)) return { tools: value };
    return { problem: 'The tools must be a JSON array.' };
  } catch {
    return { problem: "The tools aren't valid JSON, so they won't be sent." };
  }
}

export function useSettings(models: readonly CatalogModel[]): SettingsState {
  const { query } = useRoute();
  const text = (name: string) => query.get(name) ?? '';
  const model = models.find(({ id }) => id === text('model')) ?? models[0];
  const skills = text('skills')
    .split(',')
    .filter((name) => name !== '');
  const hasTools = query.has('tools');
  const toolsText = text('tools') === '1' ? sampleTools : text('tools');
  const { tools, problem } = hasTools ? readTools(toolsText) : {};
  const number = (name: string) => (text(name) === '' ? undefined : Number(text(name)));
  const [temperature, maxTokens] = [number('temperature'), number('max_tokens')];
  return {
    body: {
      model: model?.id ?? '',
      ...(temperature === undefined ? {} : { temperature }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
      ...(text('effort') === '' ? {} : { reasoning: { effort: text('effort') } }),
      ...(tools ? { tools } : {}),
      ...(skills.length > 0 ? { skills } : {}),
    },
    system: text('system'),
    temperature: text('temperature'),
    maxTokens: text('max_tokens'),
    effort: text('effort'),
    skills,
    hasTools,
    tools: toolsText,
    toolsProblem: problem,
    acceptsImages: model?.architecture.input_modalities.includes('image') === true,
  };
}

const efforts = [
  ['', 'Default'],
  ['low', 'Low'],
  ['medium', 'Medium'],
  ['high', 'High'],
] as const;

interface SettingsProps {
  readonly models: readonly CatalogModel[];
  readonly settings: SettingsState;
}

export function Settings({ models, settings }: SettingsProps) {
  const set = (name: string) => (value: string) => setQuery({ [name]: value }, 'replace');
  const model = models.find(({ id }) => id === settings.body.model);
  return (
    <>
      <SelectField
        label="Model"
        value={settings.body.model}
        onValue={set('model')}
        options={models.map(({ id }) => [id, id] as const)}
        hint={model ? `${shortPrice(model.endpoints[0])}, per million tokens` : ''}
      />
      <AreaField
        label="System prompt"
        rows={2}
        placeholder="none"
        value={settings.system}
        onValue={set('system')}
      />
      <div class="pair">
        <TextField
          label="Temperature"
          type="number"
          min="0"
          max="2"
          step="0.1"
          placeholder="default"
          value={settings.temperature}
          onValue={set('temperature')}
        />
        <TextField
          label="Max tokens"
          type="number"
          min="1"
          placeholder="default"
          value={settings.maxTokens}
          onValue={set('max_tokens')}
        />
      </div>
      {model?.architecture.features.includes('reasoning') && (
        <SelectField
          label="Reasoning effort"
          value={settings.effort}
          onValue={set('effort')}
          options={efforts}
        />
      )}
      <SkillChoice chosen={settings.skills} />
      <Tools settings={settings} />
    </>
  );
}

function Tools({ settings }: Pick<SettingsProps, 'settings'>) {
  const { hasTools, tools, toolsProblem } = settings;
  return (
    <>
      <Checkbox
        label="Send tools"
        checked={hasTools}
        onChange={(isOn) => setQuery({ tools: isOn ? '1' : null }, 'replace')}
      />
      {hasTools && (
        <AreaField
          label="Tools (JSON)"
          rows={8}
          value={tools}
          onValue={(text) => setQuery({ tools: text === '' ? '[]' : text }, 'replace')}
          hint={toolsProblem ?? 'The demo model calls a tool when you mention its name.'}
        />
      )}
    </>
  );
}
