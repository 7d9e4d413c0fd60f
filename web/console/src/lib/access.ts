// What the user of this page may do (GET /console/v1/access): asked once, and again with each key.

import {useEffect, useState} from 'preact/hooks';
import {getJson, onKey} from './api';

export interface Access { observe: boolean; admin: boolean; why: string }

// Until the server has answered nothing that changes something is offered.
let access: Access = {observe: false, admin: false, why: ''};
let asked: Promise<void> | undefined;
const listeners = new Set<() => void>();
const refresh = () => (asked = getJson<Access>('/console/v1/access').then((answer) => {
  access = answer;
  listeners.forEach((listener) => listener());
}, () => { asked = undefined; }));
onKey(() => void refresh());

export function useAccess(): Access {
  const [, turn] = useState(0);
  useEffect(() => {
    const listener = () => turn((n) => n + 1);
    listeners.add(listener);
    if (!asked) void refresh();
    return () => void listeners.delete(listener);
  }, []);
  return access;
}
