import { type Command, commonOptions, type Option, type Topic } from './command.ts';

/** The help pages: all topics, one topic, one command. */

export function overviewHelp(topics: readonly Topic[]): string {
  return [
    'Tollgate: one endpoint in front of every model provider, billed in credits.',
    '',
    'Usage: tollgate <command> [options]',
    '',
    'Commands:',
    ...columns(topics.map(({ name, summary }) => [name, summary])),
    '',
    'Run "tollgate <command> --help" to learn more about one of them,',
    '"tollgate version" for the version.',
  ].join('\n');
}

export function topicHelp(topic: Topic): string {
  return [
    `${topic.summary}.`,
    '',
    `Usage: tollgate ${topic.name} <command> [options]`,
    '',
    'Commands:',
    ...columns(topic.commands.map((command) => [call(command), command.summary])),
    ...examples(topic),
    '',
    `Run "tollgate ${topic.name} <command> --help" for the options of one command.`,
  ].join('\n');
}

export function commandHelp(topic: Topic, command: Command): string {
  const words = ['tollgate', topic.name, call(command)].filter((word) => word !== '');
  return [
    `${command.summary}.`,
    '',
    `Usage: ${words.join(' ')} [options]`,
    '',
    'Options:',
    ...columns(optionRows({ ...command.options, ...commonOptions })),
  ].join('\n');
}

function call({ name, operand = '' }: Command): string {
  return `${name} ${operand}`.trim();
}

function optionRows(options: Readonly<Record<string, Option>>): [string, string][] {
  const shown = Object.entries(options).filter(([, { isInternal }]) => !isInternal);
  return shown.map(([name, { value = '', summary, required }]) => [
    `--${name} ${value}`.trim(),
    required ? `${summary} (required)` : summary,
  ]);
}

function examples({ examples: lines = [] }: Topic): string[] {
  return lines.length === 0 ? [] : ['', 'Examples:', ...lines.map((line) => `  ${line}`)];
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
