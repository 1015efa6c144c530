import { render } from 'preact';
import { App } from './app.tsx';
import './styles/index.css';
import { startTheme } from './theme.ts';

startTheme();
const root = document.getElementById('app');
if (root) render(<App />, root);
